// LAPACK's routines as C++ overloads for the four element types. The Fortran routines are declared here because every
// LAPACK has them under these names, while few have the same C headers. Their matrices are column-major. Fortran passes
// the lengths of string arguments behind all other arguments. They are called through pointers, which blas_library.cpp
// sets: to what this was linked to, or to what it loads.
#pragma once

#include <complex>
#include <cstddef>

// Apple's Accelerate has today's LAPACK under names of its own, since macOS 13.3 (its vecLib/lapack.h, __LAPACK_ALIAS).
#ifdef RLX_BLAS_ACCELERATE
#define RLX_LAPACK_NAME(name) __asm("_" #name "$NEWLAPACK")
#else
#define RLX_LAPACK_NAME(name)
#endif

namespace rlx::kernels::lapack {

using ComplexFloat = std::complex<float>;
using ComplexDouble = std::complex<double>;

// clang-format off
#define RLX_LAPACK_ALL(T, p)                                                                                           \
  extern "C" {                                                                                                         \
  void p##getrf_(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info) RLX_LAPACK_NAME(p##getrf);  \
  void p##getrs_(const char* trans, const int* n, const int* columns, const T* a, const int* lda, const int* pivots,   \
                 T* b, const int* ldb, int* info, size_t) RLX_LAPACK_NAME(p##getrs);                                   \
  void p##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, size_t) RLX_LAPACK_NAME(p##potrf);   \
  void p##trsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m, const int* n,   \
                const T* alpha, const T* a, const int* lda, T* b, const int* ldb, size_t, size_t, size_t, size_t) RLX_LAPACK_NAME(p##trsm);\
  void p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* taus, T* work, const int* lwork, int* info) RLX_LAPACK_NAME(p##geqrf);\
  }                                                                                                                    \
  extern decltype(&p##getrf_) p##getrf;                                                                                \
  extern decltype(&p##getrs_) p##getrs;                                                                                \
  extern decltype(&p##potrf_) p##potrf;                                                                                \
  extern decltype(&p##trsm_) p##trsm;                                                                                  \
  extern decltype(&p##geqrf_) p##geqrf;                                                                                \
  inline int getrf(int m, int n, T* a, int lda, int* pivots) {                                                         \
    int info = 0;                                                                                                      \
    p##getrf(&m, &n, a, &lda, pivots, &info);                                                                          \
    return info;                                                                                                       \
  }                                                                                                                    \
  inline void getrs(char trans, int n, int columns, const T* a, int lda, const int* pivots, T* b, int ldb) {           \
    int info = 0;                                                                                                      \
    p##getrs(&trans, &n, &columns, a, &lda, pivots, b, &ldb, &info, 1);                                                \
  }                                                                                                                    \
  inline int potrf(char uplo, int n, T* a, int lda) {                                                                  \
    int info = 0;                                                                                                      \
    p##potrf(&uplo, &n, a, &lda, &info, 1);                                                                            \
    return info;                                                                                                       \
  }                                                                                                                    \
  inline void trsm(char side, char uplo, char trans, char diag, int m, int n, const T* a, int lda, T* b, int ldb) {    \
    const T one = 1;                                                                                                   \
    p##trsm(&side, &uplo, &trans, &diag, &m, &n, &one, a, &lda, b, &ldb, 1, 1, 1, 1);                                  \
  }                                                                                                                    \
  inline void geqrf(int m, int n, T* a, int lda, T* taus, T* work, int lwork) {                                        \
    int info = 0;                                                                                                      \
    p##geqrf(&m, &n, a, &lda, taus, work, &lwork, &info);                                                              \
  }
#define RLX_LAPACK_REAL(T, p)                                                                                          \
  extern "C" {                                                                                                         \
  void p##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* taus, T* work,               \
                 const int* lwork, int* info) RLX_LAPACK_NAME(p##orgqr);                                               \
  void p##syevd_(const char* job, const char* uplo, const int* n, T* a, const int* lda, T* values, T* work,            \
                 const int* lwork, int* iwork, const int* liwork, int* info, size_t, size_t) RLX_LAPACK_NAME(p##syevd);\
  void p##gesdd_(const char* job, const int* m, const int* n, T* a, const int* lda, T* s, T* u, const int* ldu, T* vt, \
                 const int* ldvt, T* work, const int* lwork, int* iwork, int* info, size_t) RLX_LAPACK_NAME(p##gesdd); \
  void p##geev_(const char* left, const char* right, const int* n, T* a, const int* lda, T* re, T* im, T* vl,          \
                const int* ldvl, T* vr, const int* ldvr, T* work, const int* lwork, int* info, size_t, size_t) RLX_LAPACK_NAME(p##geev);\
  }                                                                                                                    \
  extern decltype(&p##orgqr_) p##orgqr;                                                                                \
  extern decltype(&p##syevd_) p##syevd;                                                                                \
  extern decltype(&p##gesdd_) p##gesdd;                                                                                \
  extern decltype(&p##geev_) p##geev;                                                                                  \
  inline void orgqr(int m, int n, int k, T* a, int lda, const T* taus, T* work, int lwork) {                           \
    int info = 0;                                                                                                      \
    p##orgqr(&m, &n, &k, a, &lda, taus, work, &lwork, &info);                                                          \
  }                                                                                                                    \
  inline int heevd(char job, int n, T* a, T* values, T* work, int lwork, T*, int, int* iwork, int liwork) {            \
    int info = 0;                                                                                                      \
    p##syevd(&job, "L", &n, a, &n, values, work, &lwork, iwork, &liwork, &info, 1, 1);                                 \
    return info;                                                                                                       \
  }                                                                                                                    \
  inline int gesdd(char job, int m, int n, T* a, T* s, T* u, T* vt, int ldvt, T* work, int lwork, T*, int* iwork) {    \
    int info = 0;                                                                                                      \
    p##gesdd(&job, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, iwork, &info, 1);                                 \
    return info;                                                                                                       \
  }                                                                                                                    \
  inline int geev(int n, T* a, T* re, T* im, T* vectors, T* work, int lwork, T*) {                                     \
    int info = 0;                                                                                                      \
    p##geev("N", "V", &n, a, &n, re, im, nullptr, &n, vectors, &n, work, &lwork, &info, 1, 1);                         \
    return info;                                                                                                       \
  }
#define RLX_LAPACK_COMPLEX(T, R, p)                                                                                    \
  extern "C" {                                                                                                         \
  void p##ungqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* taus, T* work,               \
                 const int* lwork, int* info) RLX_LAPACK_NAME(p##ungqr);                                               \
  void p##heevd_(const char* job, const char* uplo, const int* n, T* a, const int* lda, R* values, T* work,            \
                 const int* lwork, R* rwork, const int* lrwork, int* iwork, const int* liwork, int* info, size_t,      \
                 size_t) RLX_LAPACK_NAME(p##heevd);                                                                    \
  void p##gesdd_(const char* job, const int* m, const int* n, T* a, const int* lda, R* s, T* u, const int* ldu, T* vt, \
                 const int* ldvt, T* work, const int* lwork, R* rwork, int* iwork, int* info, size_t) RLX_LAPACK_NAME(p##gesdd);\
  void p##geev_(const char* left, const char* right, const int* n, T* a, const int* lda, T* values, T* vl,             \
                const int* ldvl, T* vr, const int* ldvr, T* work, const int* lwork, R* rwork, int* info, size_t,       \
                size_t) RLX_LAPACK_NAME(p##geev);                                                                      \
  }                                                                                                                    \
  extern decltype(&p##ungqr_) p##ungqr;                                                                                \
  extern decltype(&p##heevd_) p##heevd;                                                                                \
  extern decltype(&p##gesdd_) p##gesdd;                                                                                \
  extern decltype(&p##geev_) p##geev;                                                                                  \
  inline void orgqr(int m, int n, int k, T* a, int lda, const T* taus, T* work, int lwork) {                           \
    int info = 0;                                                                                                      \
    p##ungqr(&m, &n, &k, a, &lda, taus, work, &lwork, &info);                                                          \
  }                                                                                                                    \
  inline int heevd(char job, int n, T* a, R* values, T* work, int lwork, R* rwork, int lrwork, int* iwork, int liwork) {\
    int info = 0;                                                                                                      \
    p##heevd(&job, "L", &n, a, &n, values, work, &lwork, rwork, &lrwork, iwork, &liwork, &info, 1, 1);                 \
    return info;                                                                                                       \
  }                                                                                                                    \
  inline int gesdd(char job, int m, int n, T* a, R* s, T* u, T* vt, int ldvt, T* work, int lwork, R* rwork, int* iwork) {\
    int info = 0;                                                                                                      \
    p##gesdd(&job, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, rwork, iwork, &info, 1);                          \
    return info;                                                                                                       \
  }                                                                                                                    \
  inline int geev(int n, T* a, T* values, T*, T* vectors, T* work, int lwork, R* rwork) {                              \
    int info = 0;                                                                                                      \
    p##geev("N", "V", &n, a, &n, values, nullptr, &n, vectors, &n, work, &lwork, rwork, &info, 1, 1);                  \
    return info;                                                                                                       \
  }
RLX_LAPACK_ALL(float, s)
RLX_LAPACK_ALL(double, d)
RLX_LAPACK_ALL(ComplexFloat, c)
RLX_LAPACK_ALL(ComplexDouble, z)
RLX_LAPACK_REAL(float, s)
RLX_LAPACK_REAL(double, d)
RLX_LAPACK_COMPLEX(ComplexFloat, float, c)
RLX_LAPACK_COMPLEX(ComplexDouble, double, z)
// clang-format on
#undef RLX_LAPACK_ALL
#undef RLX_LAPACK_REAL
#undef RLX_LAPACK_COMPLEX

/// Each routine of each type: X(prefix, name).
#define RLX_LAPACK_ROUTINES_OF(X, p) X(p, getrf) X(p, getrs) X(p, potrf) X(p, trsm) X(p, geqrf) X(p, gesdd) X(p, geev)
#define RLX_LAPACK_ROUTINES_OF_REAL(X, p) RLX_LAPACK_ROUTINES_OF(X, p) X(p, orgqr) X(p, syevd)
#define RLX_LAPACK_ROUTINES_OF_COMPLEX(X, p) RLX_LAPACK_ROUTINES_OF(X, p) X(p, ungqr) X(p, heevd)
#define RLX_LAPACK_ROUTINES(X)      \
  RLX_LAPACK_ROUTINES_OF_REAL(X, s) \
  RLX_LAPACK_ROUTINES_OF_REAL(X, d) RLX_LAPACK_ROUTINES_OF_COMPLEX(X, c) RLX_LAPACK_ROUTINES_OF_COMPLEX(X, z)

}  // namespace rlx::kernels::lapack
