// See the header.
#include "cost/manifest_rows.h"

#include <algorithm>
#include <map>

namespace rlx {
namespace {

constexpr size_t kMostOpsNamed = 3;

/// The name without that of the layer around it.
std::string own_name(const ManifestLayer& layer, const std::string& outer) {
  return outer.empty() ? layer.name : layer.name.substr(std::min(outer.size() + 1, layer.name.size()));
}
/// A name whose numbers are all alike: that of layers which repeat.
std::string without_numbers(std::string_view name) {
  std::string text;
  for (char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit || text.empty() || text.back() != '#') text += is_digit ? '#' : c;
  }
  return text;
}

bool is_alike(const ManifestLayer& a, const ManifestLayer& b) {
  if (!(a.totals == b.totals) || a.ops != b.ops || a.outputs != b.outputs || a.params.size() != b.params.size() ||
      a.layers.size() != b.layers.size())
    return false;
  for (size_t i = 0; i < a.params.size(); ++i)
    if (a.params[i].type != b.params[i].type) return false;
  for (size_t i = 0; i < a.layers.size(); ++i)
    if (own_name(a.layers[i], a.name) != own_name(b.layers[i], b.name) || !is_alike(a.layers[i], b.layers[i]))
      return false;
  return true;
}

void count_ops(const ManifestLayer& layer, std::map<std::string, size_t>& counts) {
  for (const auto& o : layer.ops) counts[o.op] += o.count;
  for (const ManifestLayer& each : layer.layers) count_ops(each, counts);
}
std::string ops_text(const std::map<std::string, size_t>& counts) {
  std::vector<std::pair<size_t, std::string>> all;
  for (const auto& [op, count] : counts) all.emplace_back(count, op);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kMostOpsNamed); ++i)
    text += (i ? ", " : "") + all[i].second + (all[i].first > 1 ? text_of(" x", all[i].first) : "");
  return all.size() > kMostOpsNamed ? text + ", ..." : text;
}

/// The rows of a whole tree.
class RowMaker {
 public:
  explicit RowMaker(const ManifestTotals& whole) : whole_(whole) {}
  std::vector<ManifestRow> take() && { return std::move(rows_); }

  void add(const ManifestLayer* layer, std::string label, size_t depth, size_t times) {
    while (depth > 0 && layer->layers.size() == 1 && layer->ops.empty() && layer->params.empty()) {
      label += "." + own_name(layer->layers[0], layer->name);
      layer = &layer->layers[0];
    }
    std::map<std::string, size_t> counts;
    count_ops(*layer, counts);
    rows_.push_back({std::move(label), depth, times, layer->totals, ops_text(counts), layer->outputs});
    const size_t own = rows_.size() - 1;
    if (layer->layers.empty() && depth == 0) add_ops(*layer);  // nothing has a name: the ops themselves are told apart
    for (size_t i = 0, end = 0; i < layer->layers.size(); i = end) {
      const ManifestLayer& first = layer->layers[i];
      const std::string name = own_name(first, layer->name);
      for (end = i + 1; end < layer->layers.size(); ++end)
        if (without_numbers(own_name(layer->layers[end], layer->name)) != without_numbers(name) ||
            !is_alike(first, layer->layers[end]))
          break;
      const size_t count = end - i;
      add(&first, count == 1 ? name : name + " … " + own_name(layer->layers[end - 1], layer->name), depth + 1,
          times * count);
    }
    if (!layer->layers.empty()) add_own(*layer, depth + 1, times);
    rows_[own].has_rows = rows_.size() > own + 1;
  }

 private:
  void add_ops(const ManifestLayer& layer) {
    for (const auto& o : layer.ops) {
      ManifestRow row{o.op, 1, 1, {}, text_of(o.count, o.count > 1 ? " nodes" : " node"), {}};
      row.each.ops = o.count, row.each.product_flops = o.flops, row.each.bytes_moved = o.bytes_moved;
      rows_.push_back(std::move(row));
    }
  }
  /// What a layer computes beside the layers in it, where that counts.
  void add_own(const ManifestLayer& layer, size_t depth, size_t times) {
    ManifestRow row{"itself", depth, times, {}, {}, {}};
    std::map<std::string, size_t> counts;
    for (const auto& o : layer.ops) {
      counts[o.op] += o.count, row.each.ops += o.count;
      row.each.product_flops = row.each.product_flops + o.flops;
      row.each.bytes_moved = row.each.bytes_moved + o.bytes_moved;
    }
    for (const auto& p : layer.params) {
      row.each.params = row.each.params + p.elements;
      row.each.param_bytes = row.each.param_bytes + p.bytes;
    }
    row.ops = ops_text(counts);
    const auto counts_for = [&](const Dim& part, const Dim& all) {
      return part.is_static() && all.is_static()
                 ? 50.0 * static_cast<double>(part.value()) * static_cast<double>(times) >=
                           static_cast<double>(all.value()) &&
                       part.value() > 0
                 : !(part == Dim(0));
    };
    if (counts_for(row.each.params, whole_.params) || counts_for(row.each.flops(), whole_.flops()) ||
        counts_for(row.each.bytes_moved, whole_.bytes_moved))
      rows_.push_back(std::move(row));
  }
  const ManifestTotals& whole_;
  std::vector<ManifestRow> rows_;
};

double size_of(const ManifestRow& row, const ManifestTotals& whole) {
  const auto part = [](const Dim& a, const Dim& b) {
    return a.is_static() && b.is_static() && b.value() > 0
               ? static_cast<double>(a.value()) / static_cast<double>(b.value())
               : 0;
  };
  return static_cast<double>(row.times) *
         (part(row.each.param_bytes, whole.param_bytes) + part(row.each.flops(), whole.flops()) +
          part(row.each.bytes_moved, whole.bytes_moved));
}

}  // namespace

std::vector<ManifestRow> manifest_rows(const Manifest& m, size_t most) {
  RowMaker maker(m.whole.totals);
  maker.add(&m.whole, m.graph, 0, 1);
  std::vector<ManifestRow> rows = std::move(maker).take();
  while (rows.size() > most) {
    size_t deepest = 0;
    for (const ManifestRow& r : rows) deepest = std::max(deepest, r.depth);
    if (deepest <= 1) break;
    std::vector<ManifestRow> kept;
    for (ManifestRow& r : rows) {
      if (r.depth == deepest) continue;
      if (r.depth + 1 == deepest) r.has_rows = false;
      kept.push_back(std::move(r));
    }
    rows = std::move(kept);
  }
  if (rows.size() <= most || most < 3) return rows;
  // A flat list: the largest stay, in their order, and the last row is the sum of the others.
  std::vector<size_t> order;
  for (size_t i = 1; i < rows.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return size_of(rows[a], m.whole.totals) > size_of(rows[b], m.whole.totals);
  });
  order.resize(most - 2);
  std::sort(order.begin(), order.end());
  std::vector<ManifestRow> kept = {rows[0]};
  ManifestRow rest{"", 1, 1, {}, {}, {}};
  size_t left_out = 0;
  for (size_t i = 1, next = 0; i < rows.size(); ++i) {
    if (next < order.size() && order[next] == i) {
      kept.push_back(std::move(rows[i])), ++next;
      continue;
    }
    ++left_out;
    for (size_t t = 0; t < rows[i].times; ++t) rest.each += rows[i].each;
  }
  rest.label = text_of(left_out, " more"), rest.is_rest = true;
  kept.push_back(std::move(rest));
  return kept;
}

}  // namespace rlx
