// A team of threads that runs a sequence of phases, each a number of chunks in any order.
//
// No thread is ever waited for unless it holds a chunk: whoever finishes the last chunk of a phase
// opens the next one, so a thread that lost its core to a neighbour delays at most its own chunk.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace netgain {

// What a team runs. Both functions are called from any of its threads.
class Program {
 public:
  virtual ~Program() = default;
  virtual int phases() const = 0;
  // Chunks of a phase, at most 65535; asked once, when all earlier phases are done.
  virtual int chunks(int phase) = 0;
  virtual void execute(int phase, int chunk, int worker) = 0;
  // Called once after each phase, before the next one opens.
  virtual void finished(int phase) = 0;
};

class Pool {
 public:
  // `threads` includes the caller of `run`. `cpus`: one core per thread to keep it on, or empty.
  Pool(int threads, std::vector<int> cpus);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }
  // Runs all phases; the calling thread works too. One caller at a time.
  void run(Program& program);

 private:
  void stop();
  void help(int worker);
  bool take(uint64_t& ticket, int& chunk);
  void work(uint64_t ticket, int chunk, int worker);
  void open_next(uint32_t sequence, int phase, int worker);
  void sleep(uint64_t seen);
  void wake();

  // sequence number << 32 | chunks << 16 | next chunk. Every phase has a sequence number of its
  // own, so that a late thread can take a chunk of the open phase or none.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<uint32_t> alarm_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> running_{false};
  std::atomic<bool> stopping_{false};
  Program* program_ = nullptr;
  int phase_ = 0;
  std::vector<int> cpus_;
  bool pinned_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace netgain
