// Conds and loops of a program that is built op by op: blocks that are opened, filled and closed.
#include "devices/coreml/mil_builder_impl.h"

namespace rlx {

void MilBuilder::begin_cond(const MilValue& pred, const std::string& name) {
  Impl& b = *impl_;
  with_context([&] { return "beginning a cond"; },
               [&] {
                 b.check_condition(pred, "the pred", false);
                 if (!name.empty()) b.check_name("name", name);
                 b.f().controls.push_back({false, name.empty() ? b.numbered("cond") : name, {pred}, {}, {}});
                 b.begin_block();
               });
}

void MilBuilder::begin_else(const std::vector<MilValue>& results) {
  Impl& b = *impl_;
  with_context([&] { return "ending the first branch of a cond"; },
               [&] {
                 OpenControl& control = b.innermost(false, 0, "begin_else");
                 if (results.empty()) fail(ErrorCode::invalid_argument, "a branch has at least one result");
                 for (const MilValue& v : results) b.check_value(v, "the result");
                 control.done.push_back(b.end_block(results, control));
                 control.first = results;
                 b.begin_block();
               });
}

std::vector<MilValue> MilBuilder::end_cond(const std::vector<MilValue>& results) {
  Impl& b = *impl_;
  return with_context(
      [&] { return "ending a cond"; },
      [&] {
        OpenControl& control = b.innermost(false, 1, "end_cond");
        const std::vector<MilValue> first = control.first;
        if (results.size() != first.size())
          fail(ErrorCode::invalid_argument, "the branches give ", first.size(), " and ", results.size(), " results");
        std::vector<std::optional<Type>> types;
        for (size_t i = 0; i < results.size(); ++i) {
          b.check_value(results[i], "the result");
          const mil::ValueType &one = Impl::declared_of(first[i]), &other = Impl::declared_of(results[i]);
          if (!(one == other))
            fail(ErrorCode::shape_mismatch, "the branches give result ", i, " as ", one, " and ", other,
                 "; they are to give the same types");
          types.push_back(results[i].record().type);
          // Open dims of the two are not known to be equal.
          if (types.back() && *types.back() != first[i].type())
            for (size_t d = 0; d < types.back()->rank(); ++d)
              if (types.back()->dims[d] != first[i].type().dims[d])
                types.back()->dims[d] = Dim::symbol(text_of(control.name, "_", i, "_", d));
        }
        for (const MilValue& v : results)
          if (!v.record().type)
            fail(ErrorCode::unsupported, "the branches give '", v.name(), "', which is ", Impl::declared_of(v),
                 "; a cond gives tensors");
        b.check_result_names(control, results.size());
        control.done.push_back(b.end_block(results, control));
        OpenControl ended = std::move(control);
        b.f().controls.pop_back();
        std::vector<MilValue> made;
        b.finish(std::move(ended), "cond", "pred", first, types, made);
        return made;
      });
}

std::vector<MilValue> MilBuilder::cond(const MilValue& pred, const Branch& on_true, const Branch& on_false,
                                       const std::string& name) {
  const size_t depth = impl_->f().controls.size();
  try {
    begin_cond(pred, name);
    begin_else(on_true());
    return end_cond(on_false());
  } catch (...) {
    while (impl_->f().controls.size() > depth) impl_->abandon();
    throw;
  }
}

std::vector<MilValue> MilBuilder::begin_while(const std::vector<MilValue>& vars, const std::string& name,
                                              const std::vector<Type>& types) {
  Impl& b = *impl_;
  return with_context(
      [&] { return "beginning a while_loop"; },
      [&] {
        if (vars.empty()) fail(ErrorCode::invalid_argument, "a loop has at least one var");
        if (!name.empty()) b.check_name("name", name);
        if (!types.empty() && types.size() != vars.size())
          fail(ErrorCode::invalid_argument, "there are ", vars.size(), " vars, and the types of ", types.size());
        for (size_t i = 0; i < vars.size(); ++i) {
          b.check_value(vars[i], "the var");
          if (types.empty()) continue;
          const Type &now = vars[i].type(), &stated = types[i];
          bool fits = now.dtype == stated.dtype && now.rank() == stated.rank();
          for (size_t d = 0; fits && d < now.rank(); ++d)
            fits = !stated.dims[d].is_static() || stated.dims[d] == now.dims[d];
          if (!fits)
            fail(ErrorCode::shape_mismatch, "the var '", vars[i].name(), "' is ", now, ", and is stated as ", stated);
        }
        b.f().controls.push_back({true, name.empty() ? b.numbered("while_loop") : name, vars, types, {}});
        try {
          return b.begin_vars(b.f().controls.back());
        } catch (...) {
          b.abandon();
          throw;
        }
      });
}

std::vector<MilValue> MilBuilder::begin_body(const MilValue& goes_on) {
  Impl& b = *impl_;
  return with_context([&] { return "ending the condition of a while_loop"; },
                      [&] {
                        OpenControl& control = b.innermost(true, 0, "begin_body");
                        b.check_condition(goes_on, "the condition", true);
                        control.done.push_back(b.end_block({goes_on}, control));
                        return b.begin_vars(control);
                      });
}

std::vector<MilValue> MilBuilder::end_while(const std::vector<MilValue>& next) {
  Impl& b = *impl_;
  return with_context([&] { return "ending a while_loop"; },
                      [&] {
                        OpenControl& control = b.innermost(true, 1, "end_while");
                        if (next.size() != control.operands.size())
                          fail(ErrorCode::invalid_argument, "the loop has ", control.operands.size(),
                               " vars, and the body gives ", next.size());
                        std::vector<std::optional<Type>> types;
                        for (size_t i = 0; i < next.size(); ++i) {
                          b.check_value(next[i], "the next value");
                          const mil::ValueType& carried = b.f().known.at(control.vars[i])->type;
                          const mil::ValueType& given = Impl::declared_of(next[i]);
                          bool fits = carried.kind == given.kind && carried.dtype == given.dtype &&
                                      carried.dims.size() == given.dims.size();
                          for (size_t d = 0; fits && d < given.dims.size(); ++d)
                            fits = !carried.dims[d].size || carried.dims[d].size == given.dims[d].size;
                          if (!fits)
                            fail(ErrorCode::shape_mismatch, "the loop carries '", control.operands[i].name(), "' as ",
                                 carried, ", and the body gives ", given,
                                 carried.dims.size() == given.dims.size() && carried.dtype == given.dtype
                                     ? "; a dim that changes is a symbol in the `types` of the loop"
                                     : "");
                          types.push_back(control.types.empty() ? control.operands[i].record().type : control.types[i]);
                        }
                        b.check_result_names(control, next.size());
                        control.done.push_back(b.end_block(next, control));
                        OpenControl ended = std::move(control);
                        b.f().controls.pop_back();
                        std::vector<MilValue> made, like = ended.operands;
                        b.finish(std::move(ended), "while_loop", "loop_vars", like, types, made);
                        return made;
                      });
}

std::vector<MilValue> MilBuilder::while_loop(const std::vector<MilValue>& vars, const Condition& condition,
                                             const Body& body, const std::string& name,
                                             const std::vector<Type>& types) {
  const size_t depth = impl_->f().controls.size();
  try {
    std::vector<MilValue> inside = begin_while(vars, name, types);
    inside = begin_body(condition(inside));
    return end_while(body(inside));
  } catch (...) {
    while (impl_->f().controls.size() > depth) impl_->abandon();
    throw;
  }
}

void MilBuilder::abandon() {
  if (impl_->f().controls.empty()) fail(ErrorCode::invalid_argument, "there is no block to abandon");
  impl_->abandon();
}

}  // namespace rlx
