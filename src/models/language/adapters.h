// Low-rank adapters at run time: beside the product of a module stands scale B (A x), whatever the module's own weights
// are packed in. Neighbour: rlx/lora.h, which trains adapters and merges them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rlx/language_model.h"

namespace rlx::language {

/// The adapters of a model, of which several may stand beside one module: their ranks are put together.
class Adapters {
 public:
  /// Reads folders of the package PEFT (adapter_config.json, adapter_model.safetensors) and GGUF files of llama.cpp.
  /// Fails, naming the key, for settings that change what an adapter computes and that are not built.
  Adapters(const std::vector<LanguageModel::Adapter>& adapters, const std::string& architecture);

  bool empty() const { return modules_.empty(); }
  /// The rank beside a module, by the names that it has in files; 0: there is none.
  int64_t rank(const std::vector<std::string>& names) const;
  /// A f32[rank, in], or B f32[out, rank] times the scale that the file says (alpha over the rank, or its root) and the
  /// caller's. Only for a module with a rank, and with `type` made from it. Fails, naming the module, if the file's
  /// matrix has other inputs or outputs, or the ranks are not those of `type`.
  Tensor a(const std::vector<std::string>& names, const Type& type) const;
  Tensor b(const std::vector<std::string>& names, const Type& type) const;
  /// PEFT may write a module's own weights too (of the output projection): fails if `weight` is another matrix.
  void check_copy(const std::vector<std::string>& names, const Tensor& weight) const;
  /// Fails if no `a` was asked for a module, or if a module is only a copy of weights.
  void check_used() const;

 private:
  struct Part {
    std::string name, place;  ///< of the tensors, without their endings, for messages; the folder or file
    Tensor a, b;
    double scale;
  };
  struct Module {
    std::vector<Part> parts;
    mutable bool is_used = false;
  };
  void add(const std::string& module, Part part);
  void add_folder(const LanguageModel::Adapter& adapter);
  void add_gguf(const LanguageModel::Adapter& adapter, const std::string& architecture);
  const Module* find(const std::vector<std::string>& names) const;
  const Module* module_of_rank(const std::vector<std::string>& names, int64_t expected) const;
  std::map<std::string, Tensor> copies_;
  std::map<std::string, Module> modules_;  // by the name in the file, without ".weight"
};

}  // namespace rlx::language
