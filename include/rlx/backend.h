/* A backend from outside of the library: a table of nine C functions, which a shared library or the program itself
   registers. This header is plain C11, and a backend links to no library for it: what RLX does for a backend is handed
   over in a table, too. So one and the same plugin serves the program, C, C++ and Python. `examples/backend` is a whole
   one.

   A shared library with a backend has the function rlx_register_backends (see the end). `rlx --load LIBRARY`,
   rlx_load_plugin and its like in other languages call it. The backend's devices are then devices like any other: they
   are listed, graphs are compiled for them, RLX_DEVICE may name them.

   A backend is of one of two kinds. One has memory of its own: it has the functions `allocate`, `free`, `write` and
   `read`, and a launch is given buffers that `allocate` made. The other leaves these functions NULL, and a launch is
   given pointers into the host's memory. Both compile whole graphs, whose sizes are all numbers, and which consist of
   leaves and of nodes that `supports` took.

   Every struct begins with `struct_size`, and new members are only added at its end. Whoever makes a struct sets
   struct_size to its sizeof. Whoever reads it uses no member beyond that size; such a member counts as 0. A pointer may
   be NULL only where that is said.

   Functions of a backend are called from several threads at once, and may throw (in C++). What they do wrong fails the
   operation, with an error that names the backend and what it was doing.

   When the process ends, RLX calls none any more, its launches count as cancelled, and it waits, as long as
   cancel_milliseconds says, for the functions that are under way and for work that api->complete is to end. Nor is any
   called in a child of fork with a device that its parent opened: what would use the device fails, and what would be
   freed stays. */
#ifndef RLX_BACKEND_H
#define RLX_BACKEND_H

#include <string.h>

#include "rlx/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- graphs: data, which is only read ---- */

/* The type of a value. */
typedef struct rlx_type {
  size_t struct_size;
  const char* text;    /* as in the textual IR: "f32[N, 4]" */
  const char* dtype;   /* "f32", "i64", "bool", ... */
  const int64_t* dims; /* -1: a symbol; only in graphs that `supports` is given */
  size_t rank;
  int64_t size; /* bytes of its elements, which are dense and row-major; -1 if a dim is not known */
} rlx_type;

typedef struct rlx_graph_view rlx_graph_view;

/* An attribute of a node, as `rlx ops` lists it; one that was left out is here with its default. */
typedef struct rlx_attribute {
  size_t struct_size;
  const char* name;
  const char* text; /* as in the textual IR: "0.5", "[1, 2]", the names of enumerators and dtypes, "none" */
  /* The values of a number, of a bool (0 or 1), or of a list of those; of anything else both are NULL. Of floats there
     are only `numbers`. */
  const int64_t* integers;
  const double* numbers;
  size_t count;                /* how many values there are */
  const rlx_graph_view* graph; /* of a body: a loop's, a branch's, a combiner's; else NULL */
} rlx_attribute;

typedef struct rlx_node {
  size_t struct_size;
  const char* op;            /* "input", "param" and "constant" are the leaves */
  const char* name;          /* of an input or a param; else the part of the model that it belongs to, or "" */
  const rlx_value* operands; /* results of nodes that stand before it */
  size_t operand_count;
  const rlx_type* const* results;
  size_t result_count;
  const rlx_attribute* const* attributes;
  size_t attribute_count;
  const void* data; /* the elements of a constant; NULL of any other node */
} rlx_node;

struct rlx_graph_view {
  size_t struct_size;
  const char* name;
  const rlx_node* const* nodes;
  size_t node_count;
  const rlx_value* inputs;
  size_t input_count;
  const rlx_value* params; /* what is bound once, before the runs */
  size_t param_count;
  const rlx_value* outputs;
  size_t output_count;
  const char* const* output_names;
};

static inline const rlx_type* rlx_type_of(const rlx_graph_view* graph, rlx_value value) {
  return graph->nodes[value.node]->results[value.result];
}
/* The attribute of that name; NULL if the op has none. */
static inline const rlx_attribute* rlx_attribute_of(const rlx_node* node, const char* name) {
  for (size_t i = 0; i < node->attribute_count; ++i)
    if (strcmp(node->attributes[i]->name, name) == 0) return node->attributes[i];
  return NULL;
}

/* ---- devices ---- */

/* What is known of a device without running anything. `open` is given one whose members are 0, but for struct_size,
   and sets those that are to have another value. Texts are copied. */
typedef struct rlx_target {
  size_t struct_size;
  const char* description; /* what it is here; NULL: as the backend's */
  const char* unavailable; /* why nothing can run here; NULL: it can */
  int threads;             /* how many a run may sensibly use; 0: 1 */
  int accelerates;         /* whether it computes faster than the processor that runs this program */
  int is_asynchronous;     /* 0: work has ended when its function returns; 1: when api->complete is called */
  int cancels_loops;       /* whether a run that is cancelled stops at its next trip of a loop */
  int updates_in_place;    /* whether an input that is donated and the output of its name may be one buffer */
  /* What no node, input or output may exceed; read when a graph is compiled. */
  int index_bits;            /* of the numbers by which elements are found; 0: 64 */
  size_t buffers_per_launch; /* operands and results of a node; 0: any number */
  uint64_t largest_buffer;   /* bytes of one tensor; 0: any number */
  const char* absent_dtypes; /* which no tensor there has, with spaces between them: "f64 c128"; NULL: none */
  size_t alignment;          /* of buffers, in bytes, a power of two; 0: 64 */
  uint64_t capacity;         /* of memory of its own, in bytes; 0: not known */
  /* For every device: how long the end of the process waits for its functions and its work, and how long an
     asynchronous launch may go on after its run was cancelled; 0: 30000. Then the device counts as lost, so that
     whoever waits for the run is told. */
  int cancel_milliseconds;
} rlx_target;

typedef struct rlx_compile_request {
  size_t struct_size;
  const rlx_graph_view* graph; /* stays as it is until the executable is freed */
  int threads;                 /* the most that a launch will use */
  int accuracy;                /* as in rlx_compile_options, and so is the next */
  int batch_invariant;
} rlx_compile_request;

/* Where the elements of a value are; their type is in the graph. */
typedef struct rlx_argument {
  size_t struct_size;
  /* What `allocate` stored; for a backend without memory of its own a pointer to the elements, which is aligned to the
     size of one. NULL if `size` is 0. */
  void* buffer;
  size_t offset; /* of the first byte in the buffer; 0 if the backend has no memory of its own */
  size_t size;   /* in bytes */
  /* Of a param: a number that stays while the param has the same elements, and is another one after it was bound anew.
     What a backend has packed from it may be used as long as this number is the same. */
  uint64_t version;
} rlx_argument;

/* Whether a run is to stop: api->is_cancelled. Belongs to the launch, until it has ended. */
typedef struct rlx_cancel rlx_cancel;
/* The end of one piece of work, for api->complete. A value: it may be copied, and kept as long as one likes. */
typedef struct rlx_completion {
  uint64_t id;
} rlx_completion;

/* One run. The arrays have the order of the graph. They, and the buffers, stay until the launch has ended. Inputs and
   params must not be written. An output overlaps nothing else, except that on a device that updates in place it may be
   the buffer of the input of its name. */
typedef struct rlx_launch {
  size_t struct_size;
  const rlx_argument* const* inputs;
  const rlx_argument* const* params;
  const rlx_argument* const* outputs;
  int threads;               /* how many it may use */
  const rlx_cancel* cancel;  /* to be looked at now and then; a launch that stops for it ends with RLX_CANCELLED */
  rlx_completion completion; /* of an asynchronous device */
} rlx_launch;

/* The table. A function that fails returns another status than RLX_OK, and says why by api->fail, or leaves *error
   alone.

   The order of work is RLX's affair: a launch or a copy is begun only when everything that it has to wait for has
   ended, and work that may go on at the same time is begun at the same time. On a synchronous device, work has ended
   when its function returns. On an asynchronous one, work whose function returned RLX_OK has ended when api->complete
   is called: on any thread, and perhaps before the function returns. For work whose function failed, api->complete must
   not be called. Until its end, work may use what it was given. */
typedef struct rlx_backend {
  size_t struct_size;
  const char* name;        /* of letters, digits and '_', as its devices are spelled */
  const char* description; /* one line; may be NULL */
  const char* version;     /* of what it takes and how it compiles: nothing is kept across versions; may be NULL */
  const char* options;     /* words that its devices' names may have ("mine:fast"), with spaces between; may be NULL */
  int device_count;        /* 0: 1 */
  void* context;           /* for `open`; may be NULL */

  /* Opens device `ordinal` with those options (words with spaces between, "" if there are none), once for each
     combination, and describes it. It stays open until the process ends. A failure makes the device unavailable, with
     that reason. *device is what the other functions are given; it may be NULL. */
  rlx_status (*open)(void* context, int ordinal, const char* options, rlx_target* target, void** device,
                     rlx_error** error);
  /* RLX_OK if the device takes the last node of `graph`. The other nodes are its operands: params, if they are known
     before any input is, else inputs. Any other status refuses the node, and the error says why. It is not called for
     leaves; nodes in a body are asked about by themselves. */
  rlx_status (*supports)(void* device, const rlx_graph_view* graph, rlx_error** error);
  /* Stores a handle of the compiled graph in *executable. NULL is a valid handle, and free_executable is called with it
     too. */
  rlx_status (*compile)(void* device, const rlx_compile_request* request, void** executable, rlx_error** error);
  void (*free_executable)(void* device, void* executable); /* may be NULL */
  rlx_status (*launch)(void* device, void* executable, const rlx_launch* launch, rlx_error** error);

  /* Memory of its own: all four of these, or none. `size` is never 0. What is stored in *buffer must not be NULL;
     RLX_OUT_OF_MEMORY is for a failure where trying again later may help. */
  rlx_status (*allocate)(void* device, size_t size, void** buffer, rlx_error** error);
  /* No work that uses the buffer is under way. */
  void (*free)(void* device, void* buffer);
  rlx_status (*write)(void* device, void* to, size_t offset, const void* from, size_t size, rlx_completion completion,
                      rlx_error** error);
  rlx_status (*read)(void* device, void* to, const void* from, size_t offset, size_t size, rlx_completion completion,
                     rlx_error** error);
} rlx_backend;

/* ---- what RLX does for a backend: a constant, and so are its functions ---- */
typedef struct rlx_backend_api {
  size_t struct_size;
  /* Makes a backend known; the table and its texts are copied. Fails if there is one of that name, or if a function
     that is needed is NULL. `error` may be NULL, here and below. */
  rlx_status (*register_backend)(const rlx_backend* table, rlx_error** error);
  /* Stores an error for RLX, and gives `status` back, or RLX_INTERNAL for RLX_OK. `message` says what is wrong, with
   * the actual values. */
  rlx_status (*fail)(rlx_error** error, rlx_status status, const char* message);
  int (*is_cancelled)(const rlx_cancel* cancel);
  /* Ends a piece of work, once, on any thread; `message` may be NULL. It may call the backend's `free` and
     `free_executable`: the caller must hold no lock that they take. A second call for the same work is refused, and the
     device is lost, as the first call may have been too early. */
  rlx_status (*complete)(rlx_completion completion, rlx_status status, const char* message);
} rlx_backend_api;

/* For a program that registers a backend of its own; a plugin is handed the same table. */
const rlx_backend_api* rlx_backend_functions(void);

/* What a shared library with a backend has, and RLX calls whenever it loads the library; a second load of the same one
   fails, as its names are taken:
     rlx_status rlx_register_backends(const rlx_backend_api* api, rlx_error** error);
   It keeps `api` and calls api->register_backend. */
typedef rlx_status (*rlx_register_backends_function)(const rlx_backend_api* api, rlx_error** error);

#ifdef __cplusplus
}
#endif
#endif
