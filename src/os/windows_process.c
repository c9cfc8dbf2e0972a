/* SPDX-License-Identifier: MIT
 *
 * 64-bit Windows: time, threads, output, and the end of the process. Every function preserves the last error. Most C functions
 * are avoided, because they may change errno. There are no forks, and no tools that watch memory. */
#include "os/lock.h"
#include "os/os.h"
#include "os/tool.h"
#include <errno.h>
#include <io.h>
#include <stdlib.h>
#include <windows.h>

#include <ntsecapi.h> /* after <windows.h> */

/* ---- time, chance, processors ---- */

/* Windows counts in steps of 10 to 16 ms, in memory that all processes can read. */
uint64_t os_now_ms(void) { return GetTickCount64(); }

uint64_t os_entropy(void)
{
  uint64_t number = (uintptr_t)&number;
  DWORD saved = GetLastError();
  if (!RtlGenRandom(&number, sizeof number))
    number ^= GetTickCount64() ^ (uint64_t)GetCurrentProcessId() << 32;
  SetLastError(saved);
  return number;
}

/* The processors of the process's group that it may use. */
static DWORD_PTR usable = 1;

unsigned os_processors(void)
{
  DWORD saved = GetLastError();
  DWORD_PTR own, all;
  if (GetProcessAffinityMask(GetCurrentProcess(), &own, &all) && own)
    usable = own;
  SetLastError(saved);
  return (unsigned)__builtin_popcountll(usable);
}

unsigned os_processor(void)
{
  unsigned number = GetCurrentProcessorNumber();
  return (unsigned)__builtin_popcountll(usable & (((DWORD_PTR)1 << number % ADDRESS_BITS) - 1));
}

bool os_has_nodes;
unsigned os_node(void) { return 0; }

/* ---- waiting ---- */

/* Windows sleeps to the end of a step of its clock. A shorter wait lets another thread run instead. */
void os_wait(uint32_t *word, uint32_t value, uint32_t most_us)
{
  DWORD saved = GetLastError();
  if (most_us && most_us < 1000)
    SwitchToThread();
  else
    WaitOnAddress(word, &value, sizeof value, most_us ? most_us / 1000 : INFINITE);
  SetLastError(saved);
}

void os_wake(uint32_t *word)
{
  DWORD saved = GetLastError();
  WakeByAddressSingle(word);
  SetLastError(saved);
}

/* Wine has the call before it has the fence. */
bool os_can_fence_others(void)
{
  DWORD saved = GetLastError();
  HMODULE system = GetModuleHandleA("ntdll.dll");
  bool is_wine = system && GetProcAddress(system, "wine_get_version");
  SetLastError(saved);
  return !is_wine;
}

bool os_fence_others(void)
{
  DWORD saved = GetLastError();
  FlushProcessWriteBuffers();
  SetLastError(saved);
  return true;
}

/* ---- the end of a thread ----
 *
 * Windows calls a module's functions of this table when a thread ends, in the order of the sections' names, and the C library's
 * function that frees gcc's thread-local variables is behind it. With winpthreads these variables are gone by then, and get new
 * memory at their next use. So the argument is in a slot of Windows. A callback of fiber-local storage (FlsAlloc()) would also
 * be called when a fiber ends, maybe in another thread. */

static void (*thread_at_exit)(void *);
static DWORD exit_slot = TLS_OUT_OF_INDEXES;

/* At the end of the process no other thread runs, and those that ended may have held locks. So none is waited for. */
static void NTAPI end_of_thread(void *module, DWORD reason, void *process_ends)
{
  (void)module;
  if (reason == DLL_PROCESS_DETACH && process_ends)
    lock_may_be_own = true;
  void *argument = reason == DLL_THREAD_DETACH && exit_slot != TLS_OUT_OF_INDEXES ? TlsGetValue(exit_slot) : NULL;
  if (!argument)
    return;
  TlsSetValue(exit_slot, NULL);
  thread_at_exit(argument);
}

__attribute__((section(".CRT$XLB"), used)) static const PIMAGE_TLS_CALLBACK end_callback = end_of_thread;

/* The module stays until the process ends, because its threads' ends are to be seen. */
bool os_on_thread_exit(void (*at_exit)(void *))
{
  enum { PIN = GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS };
  DWORD saved = GetLastError();
  HMODULE module;
  thread_at_exit = at_exit;
  if (GetModuleHandleExA(PIN, (const char *)&end_callback, &module))
    exit_slot = TlsAlloc();
  SetLastError(saved);
  return exit_slot != TLS_OUT_OF_INDEXES;
}

bool os_thread_on_exit(void *argument)
{
  DWORD saved = GetLastError();
  bool done = exit_slot != TLS_OUT_OF_INDEXES && TlsSetValue(exit_slot, argument);
  SetLastError(saved);
  return done;
}

/* A thread calls functions of other modules after that of this one. */
bool os_thread_may_be_over(void) { return true; }

/* ---- helper threads ---- */

enum { OWN_STACK = 256 << 10 };

static struct {
  void (*run)(void);
  HANDLE thread;
} own_threads[OS_HELPERS];

static DWORD WINAPI run_thread(void *argument)
{
  own_threads[(uintptr_t)argument].run();
  return 0;
}

int os_start_thread(os_helper_t which, void (*run)(void))
{
  DWORD saved = GetLastError();
  own_threads[which].run = run;
  HANDLE thread = CreateThread(NULL, OWN_STACK, run_thread, (void *)(uintptr_t)which, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  own_threads[which].thread = thread;
  SetLastError(saved);
  return thread ? 0 : EAGAIN;
}

bool os_join_thread(os_helper_t which, unsigned most_ms)
{
  DWORD saved = GetLastError();
  bool joined = WaitForSingleObject(own_threads[which].thread, most_ms) == WAIT_OBJECT_0;
  if (joined)
    CloseHandle(own_threads[which].thread);
  SetLastError(saved);
  return joined;
}

/* Windows counts threads in a snapshot of the whole system, which takes milliseconds and allocates. */
unsigned os_threads(void) { return 0; }
unsigned os_started_threads(void) { return 0; }

/* ---- there are no forks ---- */

bool os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
  return (void)prepare, (void)parent, (void)child, true;
}

bool os_hold_off_forks(void) { return true; }
void os_let_fork(void) {}

/* ---- output, the environment, the end of the process ---- */

static int error_of(DWORD error)
{
  return error == ERROR_DISK_FULL || error == ERROR_HANDLE_DISK_FULL ? ENOSPC : error == ERROR_INVALID_HANDLE ? EBADF : EIO;
}

static int write_all(HANDLE file, const char *text, size_t length)
{
  enum { PIECE = 1 << 20 };
  DWORD saved = GetLastError(), written;
  int error = file && file != INVALID_HANDLE_VALUE ? 0 : EBADF;
  for (; length && !error; text += written, length -= written) {
    written = 0;
    if (!WriteFile(file, text, (DWORD)min_size(length, PIECE), &written, NULL))
      error = error_of(GetLastError());
    else if (!written)
      error = EIO;
  }
  SetLastError(saved);
  return error;
}

/* Beside the C library's translation of newlines. */
int os_write(int file, const char *text, size_t length)
{
  int saved = errno;
  HANDLE handle = (HANDLE)_get_osfhandle(file);
  errno = saved;
  return write_all(handle, text, length);
}

static HANDLE standard_error(void)
{
  DWORD saved = GetLastError();
  HANDLE handle = GetStdHandle(STD_ERROR_HANDLE);
  SetLastError(saved);
  return handle;
}

void os_write_error(const char *text, size_t length) { (void)write_all(standard_error(), text, length); }

static HANDLE kept;

bool os_keep_error(void)
{
  DWORD saved = GetLastError();
  HANDLE process = GetCurrentProcess(), open = standard_error();
  if (!open || open == INVALID_HANDLE_VALUE || !DuplicateHandle(process, open, process, &kept, 0, FALSE, DUPLICATE_SAME_ACCESS))
    kept = NULL;
  SetLastError(saved);
  return kept != NULL;
}

void os_write_kept_error(const char *text, size_t length) { (void)write_all(kept, text, length); }

bool os_append(const char *path, const char *text, size_t length)
{
  DWORD saved = GetLastError();
  HANDLE file =
    CreateFileA(path, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
  bool written = write_all(file, text, length) == 0;
  if (file != INVALID_HANDLE_VALUE)
    CloseHandle(file);
  SetLastError(saved);
  return written;
}

uint32_t os_process(void) { return GetCurrentProcessId(); }

void os_abort(void) { abort(); }

/* No program has rights that its user lacks. */
bool os_is_privileged(void) { return false; }
void os_note_environment(char **variables) { (void)variables; }
const char *os_environment(const char *name) { return getenv(name); }

/* ---- no tool ---- */

os_tool_t os_tool;
void os_look_for_tool(void) {}
bool os_tool_is_valgrind(void) { return false; }
bool os_tool_may_take(void) { return false; }
bool os_tool_serves(size_t size, size_t alignment) { return (void)size, (void)alignment, false; }
void *os_tool_take(size_t size, size_t alignment) { return (void)size, (void)alignment, NULL; }
void os_tool_give(void *block) { (void)block; }
void os_tool_close(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_open_new(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_open(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_begin_silence(void) {}
void os_tool_end_silence(void) {}
void os_tool_begin_blocks(const void *owner, bool in_block) { (void)owner, (void)in_block; }
void os_tool_end_blocks(const void *owner, bool in_block) { (void)owner, (void)in_block; }
void os_tool_begin_block(const void *owner, const void *block, size_t size) { (void)owner, (void)block, (void)size; }
void os_tool_end_block(const void *owner, const void *block, size_t size) { (void)owner, (void)block, (void)size; }
void os_tool_forget(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_leave_block(const void *owner, const void *block) { (void)owner, (void)block; }
void os_tool_report_block(const void *owner, const void *block) { (void)owner, (void)block; }
void os_tool_begin_root(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_end_root(const void *start, size_t size) { (void)start, (void)size; }
void os_tool_leave_order(const void *address) { (void)address; }
void os_tool_meet_order(const void *address) { (void)address; }
