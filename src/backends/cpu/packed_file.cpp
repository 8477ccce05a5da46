// See the header. Files are hostile input: sizes and offsets are checked against the file before anything is read.
#include "backends/cpu/packed_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>

#include "base/hash.h"
#include "base/printable_text.h"
#include "base/rounded_up.h"
#include "io/atomic_file.h"
#include "io/cache_folder.h"
#include "io/json_tree.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/error.h"

namespace rlx::cpu {
namespace {

constexpr std::string_view kMagic = "RLXPACK1";
constexpr size_t kHeaderAt = 16, kPage = 4096, kMaxHeader = size_t{64} << 20;

/// Makes UTF-8 of any bytes, so that JSON can hold them: each byte becomes the character that it is in Latin-1.
std::string as_characters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text += static_cast<char>(0xc0 | byte >> 6);
    text += static_cast<char>(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
  }
  return text;
}
std::string as_bytes_again(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80 && (byte > 0xc3 || i + 1 == text.size()))
      fail(ErrorCode::parse, "its header has a character beyond Latin-1");
    if (byte >= 0x80) byte = static_cast<unsigned char>(byte << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

struct Piece {
  std::string name;
  size_t offset = 0, bytes = 0;
  uint64_t sum = 0;
};

[[noreturn]] void refuse_piece(const Piece& p, const std::string& what) {
  fail(ErrorCode::parse, "piece '", p.name, "', bytes ", p.offset, " to ", p.offset + p.bytes, ", ", what);
}

JsonTree header_of(std::span<const std::byte> file) {
  if (file.size() < kHeaderAt || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    fail(ErrorCode::parse, "it does not begin with '", kMagic, "'");
  uint64_t bytes = 0;
  std::memcpy(&bytes, file.data() + kMagic.size(), sizeof bytes);
  if (bytes > kMaxHeader || bytes > file.size() - kHeaderAt)
    fail(ErrorCode::parse, "it tells of a header of ", bytes, " bytes and has ", file.size());
  JsonTree json = json_or_null({reinterpret_cast<const char*>(file.data()) + kHeaderAt, bytes});
  if (!json.is_object()) fail(ErrorCode::parse, "its header is no JSON object");
  return json;
}

std::vector<Piece> pieces_of(const JsonTree& header, std::span<const std::byte> file) {
  std::vector<Piece> pieces;
  for (const JsonTree& p : header.at("pieces").elements()) {
    for (const char* number : {"offset", "bytes", "sum"})
      if (!p.at(number).is_natural())
        fail(ErrorCode::parse, "the '", number, "' of a piece is ", p.at(number).shown(), "; it is a count");
    Piece piece{as_bytes_again(p.at("name").string()), p.at("offset").natural(), p.at("bytes").natural(),
                p.at("sum").natural()};
    if (piece.offset % kPage != 0) refuse_piece(piece, "does not start at a page");
    if (piece.offset > file.size() || piece.bytes > file.size() - piece.offset ||
        kPage > file.size() - piece.offset - piece.bytes)
      refuse_piece(piece, text_of("does not lie in the ", file.size(), " of the file, with a page behind it"));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

/// The text of `path`.checked, for a file whose checksums were found right. Empty if the file could change without a
/// change of this text, so that its pieces must be compared each time.
std::string checked_text(const FileBytes& file) {
  const auto origin = file_origin(file.bytes());
  const std::string start = system_start();
  if (!origin || !origin->is_settled || start.empty()) return "";
  return text_of("rlx checked 1\n", origin->file.device, ':', origin->file.inode, ' ', origin->file.size, ' ',
                 origin->file.modified_ns, ' ', origin->file.changed_ns, "\nsince ", start, "\n");
}
/// The text of a small file. Empty if there is none, or if it does not belong to the user.
std::string small_file(const std::string& path) {
  constexpr std::streamsize kMax = 4096;
  try {
    require_own_entry(path);
  } catch (const Error&) {
    return "";
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<size_t>(kMax), '\0');
  in.read(text.data(), kMax);
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}
void keep_small_file(const std::string& path, const std::string& text) {
  try {
    AtomicFile file(path, AtomicFile::Links::replace);
    file.write(text);
    file.commit(AtomicFile::Flush::no);
  } catch (const Error&) {  // without the file, the checksums are compared again the next time
  }
}

std::string to_be_told_from(std::string_view of, const std::string& other) {
  auto [mine, theirs] = std::mismatch(of.begin(), of.end(), other.begin(), other.end());
  const auto line = [](std::string_view text, size_t at) {
    const size_t begin = text.rfind('\n', at > 0 ? at - 1 : 0);
    const std::string_view rest = text.substr(begin == std::string_view::npos ? 0 : begin + 1);
    return rest.substr(0, std::min<size_t>(rest.find('\n'), 160));
  };
  const auto at = static_cast<size_t>(mine - of.begin());
  return text_of("it was made of '", line(other, static_cast<size_t>(theirs - other.begin())), "', and this is '",
                 line(of, at), "'");
}

void compare_sums(const std::vector<Piece>& pieces, std::span<const std::byte> file, int threads) {
  std::atomic<size_t> damaged{pieces.size()};
  kernels::ThreadPool::shared().parallel_for(threads, static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const Piece& p = pieces[static_cast<size_t>(i)];
    if (checksum(file.subspan(p.offset, p.bytes)) != p.sum) damaged = static_cast<size_t>(i);
  });
  if (damaged < pieces.size()) refuse_piece(pieces[damaged], "does not have the sum that it was written with");
}

}  // namespace

std::shared_ptr<const PackedFile> PackedFile::open(const std::string& path, std::string_view of, int threads) {
  auto file = FileBytes::map(path);
  const auto bytes = file->bytes();
  std::vector<Piece> pieces;
  const JsonTree header = header_of(bytes);
  if (const auto made_of = as_bytes_again(header.at("of").string()); made_of != of)
    fail(ErrorCode::parse, to_be_told_from(of, made_of));
  pieces = pieces_of(header, bytes);
  load_pages(*file);
  const std::string checked = checked_text(*file), checked_path = path + kCheckedSuffix;
  if (checked.empty() || small_file(checked_path) != checked) {
    compare_sums(pieces, bytes, threads);
    if (!checked.empty()) keep_small_file(checked_path, checked);
  }
  std::shared_ptr<PackedFile> opened(new PackedFile);
  for (Piece& p : pieces) opened->pieces_.emplace(std::move(p.name), bytes.subspan(p.offset, p.bytes));
  opened->file_ = std::move(file);
  return opened;
}

void PackedFile::write(const std::string& path, std::string_view of, const Pieces& pieces) {
  // The pieces' offsets depend on the header's size, which depends on how many digits the offsets have. So the header
  // gets more room than it can need, and is padded with spaces.
  constexpr size_t kLongest = 6;  // the most characters that a byte takes in JSON: "\u0001"
  std::string text = "{\"of\":" + json_quoted(as_characters(of)) + ",\"pieces\":[";
  size_t room = text.size() + kPage;
  for (const auto& [name, bytes] : pieces) room += name.size() * kLongest + 160;
  const size_t first = rounded_up(kHeaderAt + room, kPage);
  size_t at = first;
  for (const auto& [name, bytes] : pieces) {
    text += text_of(text.ends_with('[') ? "" : ",", "{\"name\":", json_quoted(as_characters(name)), ",\"offset\":", at,
                    ",\"bytes\":", bytes.size(), ",\"sum\":", checksum(bytes), "}");
    at = rounded_up(at + bytes.size(), kPage);
  }
  text += "]}";
  if (kHeaderAt + text.size() > first)
    fail(ErrorCode::internal, "a header of ", text.size(), " bytes outgrew its room");
  text.resize(first - kHeaderAt, ' ');
  const uint64_t text_bytes = text.size();
  const std::string zeros(kPage, '\0');
  AtomicFile file(path, AtomicFile::Links::replace);
  file.write(kMagic);
  file.write(std::as_bytes(std::span(&text_bytes, 1)));
  file.write(text);
  for (const auto& [name, bytes] : pieces) {
    file.write(bytes);
    file.write(std::string_view(zeros).substr(0, rounded_up(bytes.size(), kPage) - bytes.size()));
  }
  file.write(zeros);
  file.commit(AtomicFile::Flush::no);  // a file that a crash has cut off fails its checksums
}

std::span<const std::byte> PackedFile::find(std::string_view name) const {
  auto found = pieces_.find(name);
  return found == pieces_.end() ? std::span<const std::byte>() : found->second;
}

WeightsIdentity weights_identity(const std::map<std::string, Tensor>& params) {
  constexpr size_t kMaxRead = size_t{1} << 20;
  std::string text;
  std::vector<FileStamp> files;
  std::map<std::string, FileStamp> paths;
  size_t read = 0;
  for (const auto& [name, value] : params) {
    text += text_of(name, ' ', value.type());
    if (auto origin = file_origin(value.place())) {
      if (!origin->is_settled) return {};
      paths.emplace(origin->path, origin->file);
      auto known = std::find(files.begin(), files.end(), origin->file);
      if (known == files.end()) {
        const FileStamp& f = *files.insert(files.end(), origin->file);
        text += text_of(" in file ", f.device, ':', f.inode, " of ", f.size, " bytes, written ", f.modified_ns, ' ',
                        f.changed_ns, ",");
        known = files.end() - 1;
      }
      text += text_of(" at ", known - files.begin(), '+', origin->offset);
    } else if ((read += value.byte_count()) <= kMaxRead) {
      text += text_of(" with the sum ", hex_text(checksum(value.bytes())));
    } else {
      return {};
    }
    text += '\n';
  }
  if (files.empty()) return {};  // weights that are small and not mapped are packed faster than a file is opened
  return {std::move(text), std::move(paths)};
}

}  // namespace rlx::cpu
