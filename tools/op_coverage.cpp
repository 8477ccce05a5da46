// See the header.
#include "tools/op_coverage.h"

#include <algorithm>

#include "rlx/op_def.h"

namespace rlx::tools {
namespace {

std::vector<PublishedName> listed_names() {
  return {
#define RLX_PUBLISHED(family, name) {family, #name, {}},
#define RLX_PUBLISHED_AS(family, name, stands) {family, #name, {stands}},
#include "ops/published_names.def"
  };
}

}  // namespace

std::vector<PublishedName> published_names() {
  auto names = listed_names();
  for (const OpDef* op : all_ops())
    for (std::string_view covered : op->covers)
      for (PublishedName& published : names)
        if (published.name == covered) published.covered_by.push_back(op->name);
  return names;
}

std::vector<std::string> unpublished_names() {
  auto names = listed_names();
  std::vector<std::string> wrong;
  for (const OpDef* op : all_ops())
    for (std::string_view covered : op->covers)
      if (std::none_of(names.begin(), names.end(), [&](const PublishedName& p) { return p.name == covered; }))
        wrong.push_back(text_of(op->name, ": ", covered));
  return wrong;
}

std::string coverage_text() {
  auto names = published_names();
  std::string missing;
  std::string_view family;
  size_t covered = 0;
  for (const PublishedName& published : names) {
    if (!published.covered_by.empty()) {
      ++covered;
      continue;
    }
    missing += family == published.family ? ", " : text_of(family.empty() ? "" : "\n", published.family, ": ");
    missing += published.name;
    family = published.family;
  }
  std::string text = text_of(covered, " of ", names.size(), "\n");
  if (!missing.empty()) text += "\nmissing\n" + missing + "\n";
  for (const std::string& wrong : unpublished_names()) text += "no published name, " + wrong + "\n";
  return text;
}

}  // namespace rlx::tools
