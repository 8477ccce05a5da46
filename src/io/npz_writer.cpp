// Writes .npz archives, as np.savez and np.savez_compressed do. The same arrays give the same bytes.
#include <zip.h>

#include <deque>

#include "io/atomic_file.h"
#include "io/names_in_messages.h"
#include "io/npy_header.h"
#include "rlx/io.h"

namespace rlx {
namespace {

struct ZipDiscarder {
  void operator()(zip_t* z) const { zip_discard(z); }
};

void add(zip_t* zip, const std::string& name, const std::string& header, const Tensor& tensor,
         NpzCompression compression) {
  auto refuse = [&] {
    fail(ErrorCode::io, "array ", quoted_name(name), " cannot be added to the archive: ", zip_strerror(zip));
  };
  // libzip reads the pieces when the archive is closed; it only promises by its documentation not to write to
  // them.
  zip_buffer_fragment_t pieces[] = {
      {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(header.data())), header.size()},
      {reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(tensor.data())), tensor.byte_count()}};
  zip_source_t* source = zip_source_buffer_fragment(zip, pieces, tensor.byte_count() > 0 ? 2 : 1, 0);
  if (!source) refuse();
  zip_int64_t index = zip_file_add(zip, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    refuse();
  }
  auto at = static_cast<zip_uint64_t>(index);
  // 1 January 1980, the first day of zip: with the time of writing no two files would be the same.
  constexpr zip_uint16_t kFirstDay = 1 << 5 | 1;
  if (zip_set_file_compression(zip, at, compression == NpzCompression::stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0) !=
          0 ||
      zip_file_set_dostime(zip, at, 0, kFirstDay, 0) != 0)
    refuse();
}

}  // namespace

void write_npz(const std::string& path, const NamedTensors& arrays, NpzCompression compression) {
  with_context([&] { return "writing the .npz file '" + path + "'"; },
               [&] {
                 AtomicFile file(path);
                 if (arrays.empty()) {
                   // libzip writes no file at all for an archive without members; this is the end record that
                   // such a file has.
                   file.write(std::string_view("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22));
                   file.commit();
                   return;
                 }
                 int code = 0;
                 std::unique_ptr<zip_t, ZipDiscarder> zip(
                     zip_open(file.temporary_path().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
                 if (!zip) {
                   zip_error_t error;
                   zip_error_init_with_code(&error, code);
                   std::string why = zip_error_strerror(&error);
                   zip_error_fini(&error);
                   fail(ErrorCode::io, "the archive cannot be created: ", why);
                 }
                 std::deque<std::string> headers;  // which stay until the archive is closed
                 for (const auto& [name, tensor] : arrays)
                   with_context("adding array " + quoted_name(name), [&, &array_name = name, &array = tensor] {
                     headers.push_back(npy_header_text(array.dtype(), array.shape()));
                     add(zip.get(), array_name, headers.back(), array, compression);
                   });
                 if (zip_close(zip.get()) != 0)
                   fail(ErrorCode::io, "the archive cannot be written: ", zip_strerror(zip.get()),
                        "; nothing was changed");
                 zip.release();  // NOLINT: closing has freed it
                 file.commit();
               });
}

}  // namespace rlx
