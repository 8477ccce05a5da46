// Bytes as letters: GPT-2's alphabet, in which each of the 256 bytes is a code point that prints (Radford et al. 2019,
// encoder.py, bytes_to_unicode). Byte-level models have their tokens in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rlx::tokenizer {

char32_t letter_of_byte(unsigned char byte);
/// Nothing if the code point is no letter of the alphabet.
std::optional<unsigned char> byte_of_letter(char32_t letter);
/// The letters of all bytes of `text`.
std::string as_letters(std::string_view text);
/// Appends the bytes that `token` stands for; `token` itself if one of its code points is no such letter.
void append_bytes_of_letters(std::string& out, std::string_view token);

/// "<0x0A>", the token of a byte in models with byte fallback.
std::string byte_token(unsigned char byte);
/// The byte of such a token, in hexadecimal digits of either case.
std::optional<unsigned char> byte_of_token(std::string_view token);

}  // namespace rlx::tokenizer
