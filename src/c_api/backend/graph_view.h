// A graph as the plain data of rlx/backend.h.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "rlx/backend.h"
#include "rlx/graph.h"

namespace rlx::c {

/// Owns what a view points to, but for the elements of constants, which stay the graph's: that lives as long.
class GraphView {
 public:
  explicit GraphView(const Graph& g);
  GraphView(const GraphView&) = delete;
  GraphView& operator=(const GraphView&) = delete;
  const rlx_graph_view* get() const { return &view_; }

 private:
  const rlx_type* type(const Type&);
  void add_attributes(const Node&, rlx_node& into);
  const char* text(std::string);

  // Deques: what points into them stays valid while they grow.
  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> integers_;
  std::deque<std::vector<double>> numbers_;
  std::deque<std::vector<rlx_value>> values_;
  std::deque<rlx_type> types_;
  std::deque<std::vector<const rlx_type*>> type_lists_;
  std::deque<rlx_attribute> attributes_;
  std::deque<std::vector<const rlx_attribute*>> attribute_lists_;
  std::deque<rlx_node> nodes_;
  std::vector<const rlx_node*> node_list_;
  std::vector<const char*> output_names_;
  std::deque<Graph> bodies_;
  std::vector<std::unique_ptr<GraphView>> views_;
  rlx_graph_view view_{};
};

}  // namespace rlx::c
