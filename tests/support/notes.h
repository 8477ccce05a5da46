// What a report says beside its table.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::test {

/// Whether one of the notes contains the text.
inline bool notes_say(const std::vector<std::string>& notes, std::string_view text) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

}  // namespace rlx::test
