// SPDX-License-Identifier: MIT
//
// The only C++ here. A C function that google-benchmark calls is wrapped in run_case; a call from C into google-benchmark
// is noexcept, and bench_run catches what is thrown before or after the cases run.
#include "shim.h"
#include "memory.h"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

struct bench_state {
  benchmark::State &google;
  const bench_case_t *of;
};

namespace {

struct options {
  bool list = false;
  std::string only;                         // one case by its full name; empty: all
  benchmark::IterationCount iterations = 0; // 0: google-benchmark finds out how many make its minimum time
};

// As google-benchmark writes it, without what it adds about timing.
std::string full_name(const bench_case_t &of, unsigned threads)
{
  return of.threads ? of.name + ("/threads:" + std::to_string(threads)) : of.name;
}

template <typename Visit>
void each_run(const bench_subject_t *const *subjects, size_t subject_count, Visit visit)
{
  for (size_t s = 0; s < subject_count; s++)
    for (size_t c = 0; c < subjects[s]->count; c++)
      for (unsigned threads = 1; threads <= BENCH_MAX_THREADS; threads++) {
        const bench_case_t &of = subjects[s]->cases[c];
        if ((of.threads ? of.threads : RUN_THREADS(1)) & RUN_THREADS(threads))
          visit(of, threads);
      }
}

// Before the threads of the first run start: by now google-benchmark has allocated what it keeps.
void before_run(const benchmark::State &)
{
  static bool first = true;
  if (first)
    memory_baseline();
  first = false;
}

void run_case(benchmark::State &google, const bench_case_t *of)
{
  bench_state state{google, of};
  of->body(&state);
  if (google.thread_index() == 0) {
    google.counters["peak_growth"] = static_cast<double>(memory_peak_growth());
    google.counters["end_growth"] = static_cast<double>(memory_growth());
  }
}

// One thread: the processor time of the process, which another program on the same processor disturbs least and which
// counts the threads an allocator may run beside. Several threads: the clock, since waiting for one another is a cost.
void register_run(const bench_case_t &of, unsigned threads, const options &chosen)
{
  auto *run = benchmark::RegisterBenchmark(of.name, [&of](benchmark::State &google) { run_case(google, &of); });
  run->Setup(before_run);
  if (of.threads)
    run->UseRealTime()->Threads(static_cast<int>(threads));
  else
    run->MeasureProcessCPUTime();
  if (chosen.iterations)
    run->Iterations(chosen.iterations);
}

bool take_value(const std::string &argument, const char *flag, std::string *value)
{
  const std::string prefix = std::string(flag) + "=";
  if (argument.compare(0, prefix.size(), prefix) != 0)
    return false;
  *value = argument.substr(prefix.size());
  return true;
}

// Takes our own arguments out of argv and leaves google-benchmark its own.
options take_options(int *argc, char **argv)
{
  options chosen;
  std::string number;
  int kept = 1;
  for (int i = 1; i < *argc; i++) {
    const std::string argument = argv[i];
    if (argument == "--list")
      chosen.list = true;
    else if (take_value(argument, "--iterations", &number))
      chosen.iterations = std::strtoll(number.c_str(), nullptr, 10);
    else if (!take_value(argument, "--case", &chosen.only))
      argv[kept++] = argv[i];
  }
  argv[kept] = nullptr;
  *argc = kept;
  return chosen;
}

int run(int argc, char **argv, const char *allocator, const bench_subject_t *const *subjects, size_t subject_count)
{
  const options chosen = take_options(&argc, argv);
  if (chosen.list) {
    each_run(subjects, subject_count, [](const bench_case_t &of, unsigned threads) {
      std::printf("%s\t%s\t%s\n", full_name(of, threads).c_str(), of.brief ? "brief" : "full", of.what);
    });
    return EXIT_SUCCESS;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return EXIT_FAILURE;
  size_t registered = 0;
  each_run(subjects, subject_count, [&](const bench_case_t &of, unsigned threads) {
    if (chosen.only.empty() || chosen.only == full_name(of, threads)) {
      register_run(of, threads, chosen);
      registered++;
    }
  });
  if (registered == 0) {
    std::fprintf(stderr, "bench-%s: no case named %s (see --list)\n", allocator, chosen.only.c_str());
    return EXIT_FAILURE;
  }
  benchmark::AddCustomContext("allocator", allocator);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return EXIT_SUCCESS;
}

} // namespace

extern "C" {

const bench_case_t *bench_case_of(const bench_state_t *state) { return state->of; }

unsigned bench_thread(const bench_state_t *state) { return static_cast<unsigned>(state->google.thread_index()); }

unsigned bench_threads(const bench_state_t *state) { return static_cast<unsigned>(state->google.threads()); }

// The first call with all iterations as one batch is true, the second, in bench_end, is false and stops the time.
uint64_t bench_begin(bench_state_t *state)
{
  benchmark::State &google = state->google;
  return google.KeepRunningBatch(google.max_iterations) ? static_cast<uint64_t>(google.max_iterations) : 0;
}

void bench_end(bench_state_t *state, uint64_t operations)
{
  state->google.KeepRunningBatch(1);
  state->google.SetItemsProcessed(static_cast<int64_t>(operations));
}

void bench_live(bench_state_t *state, size_t bytes) { bench_figure(state, "live", static_cast<double>(bytes)); }

void bench_figure(bench_state_t *state, const char *name, double value) { state->google.counters[name] = value; }

int bench_run(int argc, char **argv, const char *allocator, const bench_subject_t *const *subjects, size_t subject_count)
{
  try {
    return run(argc, argv, allocator, subjects, subject_count);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "bench-%s: %s\n", allocator, error.what());
  } catch (...) {
    std::fprintf(stderr, "bench-%s: ended by an exception\n", allocator);
  }
  return EXIT_FAILURE;
}

} // extern "C"
