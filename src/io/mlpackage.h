// Core ML packages (.mlpackage): a folder with a manifest, the model, and its weights.
//
//   X.mlpackage/Manifest.json
//   X.mlpackage/Data/com.apple.CoreML/model.mlmodel
//   X.mlpackage/Data/com.apple.CoreML/weights/weight.bin
//
// Source: coremltools, modelpackage/src/ModelPackage.cpp.
#pragma once

#include "io/mil.h"
#include "io/milblob.h"
#include "rlx/too_large.h"

namespace rlx {

/// A package that was read. Copies share the files, which stay mapped.
class MlPackage {
 public:
  /// Reads manifest and model and maps the weights. Paths that lead out of the package, by their text or by links, are
  /// refused.
  static MlPackage open(const std::string& path);

  const std::string& path() const;
  const mil::Model& model() const;
  /// The tensor of a literal, wherever its data stand: those in a file are borrowed from it. Fails for a value that is
  /// no tensor of numbers.
  Tensor tensor(const mil::Value& value) const;
  /// A file of weights by the name that the model uses, "@model_path/weights/weight.bin".
  const MilBlobFile& weights(const std::string& name) const;
  /// Bytes of model.mlmodel.
  uint64_t model_bytes() const;

 private:
  struct Contents;
  std::shared_ptr<Contents> contents_;
};

/// What `write_mlpackage` would write, without a file: the model as it is read back, and its weights, which are shared.
class PackageInMemory {
 public:
  explicit PackageInMemory(const mil::Model& model);
  const mil::Model& model() const { return model_; }
  /// As MlPackage::tensor.
  Tensor tensor(const mil::Value& value) const;

 private:
  mil::Model model_;
  MilBlobLayout blobs_;
};

struct MlPackageSizes {
  uint64_t model;    ///< bytes of model.mlmodel
  uint64_t weights;  ///< bytes of weight.bin; 0: there is none
};
/// What `write_mlpackage` would write; fails where it would.
MlPackageSizes check_model_size(const mil::Model& model);
/// Writes a package; one that is there already is replaced, anything else of that name is not. Constants of at least 10
/// elements go to weight.bin, equal ones once; equal models give equal bytes. It is written beside its name and renamed
/// when it is complete. Fails with TooLarge, before anything is written, where model.mlmodel would have 2 GiB, or a
/// single blob more than 2^31 - 1 bytes, which Core ML cannot load.
MlPackageSizes write_mlpackage(const std::string& path, const mil::Model& model);

}  // namespace rlx
