#include "pool.h"

#include <chrono>
#include <climits>

#if defined(__linux__)
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace netgain {
namespace {

// About 50 microseconds: longer than the gaps between phases, shorter than anyone would miss.
constexpr int kSpins = 1500;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void keep_on(int cpu) {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // refused: it runs where it may
#else
  (void)cpu;
#endif
}

// Returns when `alarm` no longer holds `seen`, or for no reason.
void wait_for(std::atomic<uint32_t>& alarm, uint32_t seen) {
#if defined(__linux__)
  syscall(SYS_futex, &alarm, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
#else
  if (alarm.load() == seen) std::this_thread::sleep_for(std::chrono::microseconds(50));
#endif
}

void wake_all(std::atomic<uint32_t>& alarm) {
#if defined(__linux__)
  syscall(SYS_futex, &alarm, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
#else
  (void)alarm;
#endif
}

constexpr uint64_t pack(uint32_t sequence, int chunks) {
  return static_cast<uint64_t>(sequence) << 32 | static_cast<uint64_t>(chunks) << 16;
}
constexpr uint32_t sequence_of(uint64_t ticket) { return static_cast<uint32_t>(ticket >> 32); }
constexpr int chunks_of(uint64_t ticket) { return static_cast<int>(ticket >> 16 & 0xffff); }
constexpr int next_of(uint64_t ticket) { return static_cast<int>(ticket & 0xffff); }

}  // namespace

Pool::Pool(int threads, std::vector<int> cpus) : cpus_(std::move(cpus)) {
  try {
    for (int worker = 1; worker < threads; ++worker) helpers_.emplace_back([this, worker] { help(worker); });
  } catch (...) {  // the system gives no more threads: end those that started
    stop();
    throw;
  }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
  stopping_.store(true);
  alarm_.fetch_add(1);
  wake_all(alarm_);
  for (std::thread& helper : helpers_) helper.join();
}

void Pool::run(Program& program) {
  if (!pinned_ && !cpus_.empty()) {
    keep_on(cpus_[0]);
    pinned_ = true;
  }
  program_ = &program;
  running_.store(true, std::memory_order_relaxed);
  open_next(sequence_of(ticket_.load(std::memory_order_relaxed)), -1, 0);
  int spins = 0;
  while (running_.load(std::memory_order_acquire)) {
    uint64_t ticket;
    int chunk;
    if (take(ticket, chunk)) {
      work(ticket, chunk, 0);
      spins = 0;
    } else if (++spins < kSpins) {
      pause();
    } else {
      std::this_thread::yield();  // a helper holds the last chunk and may want this core
    }
  }
}

// Takes a chunk of the open phase, if one is left.
bool Pool::take(uint64_t& ticket, int& chunk) {
  ticket = ticket_.load(std::memory_order_acquire);
  while (next_of(ticket) < chunks_of(ticket)) {
    if (ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      chunk = next_of(ticket);
      return true;
    }
  }
  return false;
}

// The phase cannot change before this chunk is counted as done, so `phase_` is safe to read.
void Pool::work(uint64_t ticket, int chunk, int worker) {
  int phase = phase_;
  program_->execute(phase, chunk, worker);
  if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 < chunks_of(ticket)) return;
  program_->finished(phase);
  open_next(sequence_of(ticket), phase, worker);
}

// Opens the next phase that has chunks; a phase of one chunk is run here at once.
void Pool::open_next(uint32_t sequence, int phase, int worker) {
  while (++phase < program_->phases()) {
    int chunks = program_->chunks(phase);
    if (chunks == 0) continue;
    if (chunks == 1) {
      program_->execute(phase, 0, worker);
      program_->finished(phase);
      continue;
    }
    phase_ = phase;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(pack(sequence + 1, chunks), std::memory_order_release);
    wake();
    return;
  }
  ticket_.store(pack(sequence + 1, 0), std::memory_order_relaxed);
  running_.store(false, std::memory_order_release);
}

void Pool::help(int worker) {
  if (!cpus_.empty()) keep_on(cpus_[static_cast<size_t>(worker) % cpus_.size()]);
  int spins = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    uint64_t ticket;
    int chunk;
    if (take(ticket, chunk)) {
      work(ticket, chunk, worker);
      spins = 0;
    } else if (++spins < kSpins) {
      pause();
    } else {
      sleep(ticket);
      spins = 0;
    }
  }
}

// Sleeps until another phase opens. The alarm is read before the ticket is looked at again, and
// `wake` opens the phase before it looks for sleepers, so no phase is slept through.
void Pool::sleep(uint64_t seen) {
  sleepers_.fetch_add(1);
  uint32_t alarm = alarm_.load();
  if (sequence_of(ticket_.load()) == sequence_of(seen) && !stopping_.load()) {
    wait_for(alarm_, alarm);
  }
  sleepers_.fetch_sub(1);
}

void Pool::wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load() == 0) return;
  alarm_.fetch_add(1);
  wake_all(alarm_);
}

}  // namespace netgain
