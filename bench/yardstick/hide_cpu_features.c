// Hides features of the processor from a program: preloaded (LD_PRELOAD), it makes the instruction CPUID fault, and
// answers it with the bits of YARDSTICK_HIDE taken away. For x86-64 on Linux, on processors (or virtual machines) with
// CPUID faulting; compiled and used by isa.py, which alone knows which bits make up an instruction set.
//
//   YARDSTICK_HIDE = LEAF:SUBLEAF:REGISTER:BITS[,...]   hexadecimal, but REGISTER 0 ... 3 for eax, ebx, ecx, edx;
//                                                       SUBLEAF * for all                   e.g.
//                                                       7:0:1:20,1d:*:0:ffffffff
//
// The kernel hands the setting to new threads and to the children of fork, and resets it in exec, where the preload
// begins anew. What is not hidden: XCR0, which XGETBV reads and no kernel intercepts (programs that follow the manual
// look at CPUID too); what the dynamic linker has asked before the preload (glibc's own choices: GLIBC_TUNABLES);
// /proc/cpuinfo; programs that are linked statically.
//
// A program that installs a handler of SIGSEGV, or blocks the signal, would lose ours: so sigaction, signal,
// sigprocmask and pthread_sigmask are wrapped. Faults that are not of CPUID go to the handler that it installed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSetCpuid = 0x1012, kAllSubleaves = -1, kMostRules = 64 };  // ARCH_SET_CPUID of <asm/prctl.h>

typedef struct {
  uint32_t leaf;
  int64_t subleaf;
  int which;
  uint32_t bits;
} Rule;

static Rule rules[kMostRules];
static int rule_count = 0, is_active = 0;
static struct sigaction of_program = {.sa_handler = SIG_DFL};  // what the program thinks is installed

/// The number of rules in `text`, or -1 if it is not as above.
int hide_parse(const char* text) {
  rule_count = 0;
  while (*text) {
    if (rule_count == kMostRules) return -1;
    Rule rule = {.subleaf = kAllSubleaves};
    char* end;
    rule.leaf = (uint32_t)strtoul(text, &end, 16);
    if (end == text || *end++ != ':') return -1;
    text = end;
    if (*text == '*') end = (char*)text + 1;
    else rule.subleaf = (int64_t)strtoul(text, &end, 16);
    if (end == text || *end++ != ':' || *end < '0' || *end > '3') return -1;
    rule.which = *end++ - '0';
    if (*end++ != ':') return -1;
    text = end;
    rule.bits = (uint32_t)strtoul(text, &end, 16);
    if (end == text || (*end && *end != ',')) return -1;
    rules[rule_count++] = rule;
    text = *end ? end + 1 : end;
  }
  return rule_count;
}

/// Takes the hidden bits out of eax, ebx, ecx, edx as CPUID gave them for a leaf.
void hide_mask(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]) {
  for (int i = 0; i < rule_count; ++i)
    if (rules[i].leaf == leaf && (rules[i].subleaf == kAllSubleaves || rules[i].subleaf == (int64_t)subleaf))
      registers[rules[i].which] &= ~rules[i].bits;
}

/// What CPUID says to this program, for isa.py to see that hiding works.
void hide_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]) {
  registers[0] = leaf, registers[2] = subleaf;
  __asm__ volatile("cpuid" : "+a"(registers[0]), "=b"(registers[1]), "+c"(registers[2]), "=d"(registers[3]));
}

/// 0, or -1 with errno (ENODEV: the processor has no CPUID faulting). Of this thread, and those that it begins.
int hide_set_faulting(int on) { return (int)syscall(SYS_arch_prctl, kSetCpuid, on ? 0L : 1L); }

static void pass_on(int number, siginfo_t* info, void* context) {
  const struct sigaction next = of_program;
  if (next.sa_flags & SA_SIGINFO) return next.sa_sigaction(number, info, context);
  if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) return next.sa_handler(number);
  // The instruction is run again without us, so that it ends the process as it would have.
  struct sigaction action = {.sa_handler = SIG_DFL};
  int (*real)(int, const struct sigaction*, struct sigaction*) = dlsym(RTLD_NEXT, "sigaction");
  real(SIGSEGV, &action, NULL);
}

void hide_on_fault(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  greg_t* at = ((ucontext_t*)context)->uc_mcontext.gregs;
  const uint8_t* instruction = (const uint8_t*)at[REG_RIP];
  // CPUID's is a general protection fault, which has no address; after others RIP may lie where nothing can be read.
  if (info->si_code != SI_KERNEL || instruction[0] != 0x0F || instruction[1] != 0xA2)
    return pass_on(number, info, context);
  uint32_t registers[4];
  const uint32_t leaf = (uint32_t)at[REG_RAX], subleaf = (uint32_t)at[REG_RCX];
  hide_set_faulting(0);
  hide_cpuid(leaf, subleaf, registers);
  hide_set_faulting(1);
  hide_mask(leaf, subleaf, registers);
  at[REG_RAX] = registers[0], at[REG_RBX] = registers[1], at[REG_RCX] = registers[2], at[REG_RDX] = registers[3];
  at[REG_RIP] += 2;
  errno = saved;
}

int sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  static int (*real)(int, const struct sigaction*, struct sigaction*) = NULL;
  if (!real) real = dlsym(RTLD_NEXT, "sigaction");
  if (!is_active || number != SIGSEGV) return real(number, action, old);
  const struct sigaction before = of_program;
  if (action) of_program = *action;
  if (old) *old = before;
  return 0;
}

sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/// The set without SIGSEGV, where it would be blocked: a CPUID would end the process.
static const sigset_t* unblocked(int how, const sigset_t* set, sigset_t* copy) {
  if (!set || !is_active || how == SIG_UNBLOCK) return set;
  *copy = *set;
  sigdelset(copy, SIGSEGV);
  return copy;
}

int sigprocmask(int how, const sigset_t* set, sigset_t* old) {
  static int (*real)(int, const sigset_t*, sigset_t*) = NULL;
  if (!real) real = dlsym(RTLD_NEXT, "sigprocmask");
  sigset_t copy;
  return real(how, unblocked(how, set, &copy), old);
}

int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) {
  static int (*real)(int, const sigset_t*, sigset_t*) = NULL;
  if (!real) real = dlsym(RTLD_NEXT, "pthread_sigmask");
  sigset_t copy;
  return real(how, unblocked(how, set, &copy), old);
}

/// Installs the handler. SA_NODEFER: the program's own, to which it passes on, may run CPUID too.
int hide_install(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  action.sa_sigaction = hide_on_fault;
  const int failed = sigaction(SIGSEGV, &action, &of_program);
  is_active = failed == 0;
  return failed;
}

// Before the constructors of the other libraries (-z initfirst), some of which ask the processor; even before the C
// library's, so that getenv finds nothing yet.
__attribute__((constructor)) static void begin_of_process(int argc, char** argv, char** environment) {
  (void)argc, (void)argv;
  static const char kName[] = "YARDSTICK_HIDE=";
  for (char** entry = environment; *entry; ++entry) {
    if (strncmp(*entry, kName, sizeof kName - 1) != 0) continue;
    if (hide_parse(*entry + sizeof kName - 1) >= 0 && hide_install() == 0 && hide_set_faulting(1) == 0) return;
    dprintf(2, "hide_cpu_features: cannot do as %s says: %s\n", *entry, strerror(errno));
    _exit(127);  // rather than be measured with what was to be hidden
  }
}
