// Counts which instruction sets a program executes, by looking at the instruction that it is at whenever its processor
// time has grown by a tick of the kernel's timer. For x86-64 on Linux; a shared library, compiled and used by isa.py:
//
//   * loaded by a program that brackets what is to be counted: sample_begin(), sample_end(counts);
//   * or by LD_PRELOAD with YARDSTICK_SAMPLES=FILE: each process counts from its start and appends a line to FILE at
//   exit.
//
// Sets are numbered as in isa.py: 0 is what every program may use, and what is not recognized.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { kBase, kAvx2, kAvx512, kAvx512Vnni, kAmx, kSets };

static unsigned long counts[kSets];

// Of VEX (which AVX and AVX2 use, and BMI, masks of AVX-512 and tiles too). `map`: 1 is 0F, 2 is 0F38, 3 is 0F3A.
static int set_of_vex(int map, int opcode) {
  if (map == 1) {  // kand, kandn, knot, kor, kxnor, kxor, kadd, kunpck, kmov, kortest, ktest
    const int is_mask = (opcode >= 0x41 && opcode <= 0x4B && opcode != 0x43 && opcode != 0x48 && opcode != 0x49) ||
                        (opcode >= 0x90 && opcode <= 0x93) || opcode == 0x98 || opcode == 0x99;
    return is_mask ? kAvx512 : kAvx2;
  }
  if (map == 2) {
    if (opcode == 0xF2 || opcode == 0xF3 || (opcode >= 0xF5 && opcode <= 0xF7)) return kBase;  // BMI: not hidden
    if (opcode == 0x49 || opcode == 0x4B || opcode == 0x5C || opcode == 0x5E || opcode == 0x6C) return kAmx;
    // AVX-VNNI and its forms of 8 and 16 bits; AVX-NE-CONVERT
    const int is_vnni = (opcode >= 0x50 && opcode <= 0x53) || opcode == 0xD2 || opcode == 0xD3 || opcode == 0xB0 ||
                        opcode == 0xB1 || opcode == 0x72;
    return is_vnni ? kAvx512Vnni : kAvx2;
  }
  if (map == 3) return opcode == 0xF0 ? kBase /* rorx */ : opcode >= 0x30 && opcode <= 0x33 ? kAvx512 : kAvx2;
  return kAvx2;
}

static int set_of_evex(int map, int opcode) {
  if (map == 5 || map == 6) return kAmx;  // products of f16 vectors came with tiles: RLX_ISA=avx512_vnni has none
  const int is_vnni = map == 2 && ((opcode >= 0x50 && opcode <= 0x53) || opcode == 0x72);  // with bf16
  return is_vnni ? kAvx512Vnni : kAvx512;
}

/// The set that the instruction at `p` needs. Reads no byte behind the opcode, as there may be no memory.
int set_of_instruction(const uint8_t* p) {
  for (int i = 0; i < 4 && (*p == 0x26 || *p == 0x2E || *p == 0x36 || *p == 0x3E || (*p >= 0x64 && *p <= 0x67)); ++i)
    ++p;
  switch (*p) {  // in 64-bit code these three bytes begin nothing else
    case 0xC5: return set_of_vex(1, p[2]);
    case 0xC4: return set_of_vex(p[1] & 0x1F, p[3]);
    case 0x62: return set_of_evex(p[1] & 7, p[4]);
    default: return kBase;
  }
}

static void sample(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  const ucontext_t* at = context;
  __atomic_fetch_add(&counts[set_of_instruction((const uint8_t*)at->uc_mcontext.gregs[REG_RIP])], 1, __ATOMIC_RELAXED);
}

static timer_t timer;

/// 0, or -1 where the kernel refuses.
int sample_begin(void) {
  memset(counts, 0, sizeof counts);
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  action.sa_sigaction = sample;
  // Of processor time, of all threads. Unlike setitimer's, it ends with exec. A signal that is on its way then would
  // end the next program, which has no handler yet: so the first comes late enough for `nice` and the like to be gone.
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
  const struct itimerspec tick = {{0, 1000000}, {0, 20000000}};  // as often as the kernel can
  return sigaction(SIGPROF, &action, NULL) == 0 && timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0 &&
                 timer_settime(timer, 0, &tick, NULL) == 0
             ? 0
             : -1;
}

void sample_end(unsigned long result[kSets]) {
  timer_delete(timer);  // the handler stays: a last signal may be on its way
  memcpy(result, counts, sizeof counts);
}

static int file = -1;

__attribute__((constructor)) static void begin_of_process(void) {
  const char* name = getenv("YARDSTICK_SAMPLES");
  if (!name) return;
  file = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) sample_begin();
}

__attribute__((destructor)) static void end_of_process(void) {
  if (file < 0) return;
  unsigned long found[kSets];
  char line[128];
  sample_end(found);
  const int length =
      snprintf(line, sizeof line, "%lu %lu %lu %lu %lu\n", found[0], found[1], found[2], found[3], found[4]);
  if (write(file, line, (size_t)length) != length) _exit(1);
}
