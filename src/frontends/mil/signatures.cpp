// See the header.
#include "frontends/mil/signatures.h"

#include <algorithm>

namespace rlx::mlprogram {
namespace {

struct Line {
  std::string_view op;
  int opset;
  std::string_view text;
};
const Line kLines[] = {
#define MIL_SIGNATURE(op, opset, text) {#op, opset, text},
#include "frontends/mil/signatures.def"
#undef MIL_SIGNATURE
};

/// Parts between separators, without the blanks around them.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, end);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return parts;
}

/// "x A, axis B!?=-1; A=fp16|fp32; B=int32"
Signature parsed(const Line& line) {
  Signature s;
  s.opset = line.opset;
  auto sections = split(line.text, ';');
  for (size_t i = 0; i < sections.size(); ++i) {
    size_t equals = sections[i].find('=');
    if (i > 0 && equals != std::string::npos) {
      s.domains[sections[i].substr(0, equals)] = split(std::string_view(sections[i]).substr(equals + 1), '|');
      continue;
    }
    for (const std::string& text : split(sections[i], ',')) {
      Parameter p;
      size_t blank = text.find(' '), behind = std::min(text.find('=', blank), text.size());
      p.name = text.substr(0, blank);
      p.kind = text.substr(blank + 1, behind - blank - 1);
      if (behind < text.size()) p.otherwise = text.substr(behind + 1);
      for (; p.kind.back() == '!' || p.kind.back() == '?'; p.kind.pop_back())
        (p.kind.back() == '!' ? p.constant : p.optional) = true;
      s.parameters.push_back(std::move(p));
    }
  }
  return s;
}

const std::map<std::string_view, std::vector<Signature>>& all_signatures() {
  static const auto all = [] {
    std::map<std::string_view, std::vector<Signature>> signatures;
    for (const Line& line : kLines) signatures[line.op].push_back(parsed(line));
    return signatures;
  }();
  return all;
}

}  // namespace

const Parameter* Signature::find(std::string_view name) const {
  auto it = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
  return it == parameters.end() ? nullptr : &*it;
}

std::string parameters_of(std::string_view op, const Signature& signature) {
  std::string text(op);
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    const Parameter& p = signature.parameters[i];
    text += (i ? ", " : "(") + p.name + (p.optional ? "?" : "");
  }
  return text + (signature.parameters.empty() ? "()" : ")");
}

const std::vector<std::string_view>& ops_with_signatures() {
  static const auto names = [] {
    std::vector<std::string_view> all;
    for (const auto& [name, signatures] : all_signatures()) all.push_back(name);
    return all;
  }();
  return names;
}

const Signature* find_signature(std::string_view op, int opset, int* first) {
  const auto& all = all_signatures();
  if (first) *first = 0;
  auto it = all.find(op);
  if (it == all.end()) return nullptr;
  if (first) *first = it->second.front().opset;
  const Signature* found = nullptr;
  for (const Signature& s : it->second)
    if (s.opset <= opset) found = &s;
  return found;
}

}  // namespace rlx::mlprogram
