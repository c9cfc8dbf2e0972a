/* SPDX-License-Identifier: MIT
 * Included before all else when os/windows*.c are compiled for the tests of them: calls of Windows that may fail go to
 * functions of kernel.c, which refuse on demand. */
#ifndef WINDOWS_KERNEL_H
#define WINDOWS_KERNEL_H

#include <windows.h>

void *kernel_VirtualAlloc(void *address, SIZE_T size, DWORD type, DWORD protection);
BOOL kernel_VirtualFree(void *address, SIZE_T size, DWORD type);
BOOL kernel_VirtualLock(void *address, SIZE_T size);
BOOL kernel_QueryInformationJobObject(HANDLE job, JOBOBJECTINFOCLASS what, void *to, DWORD length, DWORD *written);
DWORD kernel_TlsAlloc(void);
BOOL kernel_TlsSetValue(DWORD slot, void *value);
HANDLE kernel_CreateThread(SECURITY_ATTRIBUTES *security, SIZE_T stack, LPTHREAD_START_ROUTINE run, void *argument, DWORD flags,
                           DWORD *number);
BOOL kernel_WriteFile(HANDLE file, const void *bytes, DWORD length, DWORD *written, OVERLAPPED *overlapped);

#ifdef KERNEL_ITSELF
#include "os/os.h"
#include "unit.h"

enum { SOME_PAGES = 40 };
#define PAGE os_page_size()
#define SOME (SOME_PAGES * PAGE)

typedef struct kernel {
  /* Errors; 0: Windows' own answer. */
  DWORD reserve, commit, reset, decommit, release, lock, job, slot, set_slot, thread, write;
  DWORD write_most;      /* bytes of one call; 0: any */
  SIZE_T limit;          /* of a job; 0: none */
  unsigned reserve_fail; /* so many reservations at an address are refused */
  /* Seen. */
  unsigned reserves, commits, releases, writes;
} kernel_t;
extern kernel_t kernel;

void all_new(void); /* a Windows that grants everything */
bool errors_are_kept(void);
#else
#define VirtualAlloc              kernel_VirtualAlloc
#define VirtualFree               kernel_VirtualFree
#define VirtualLock               kernel_VirtualLock
#define QueryInformationJobObject kernel_QueryInformationJobObject
#define TlsAlloc                  kernel_TlsAlloc
#define TlsSetValue               kernel_TlsSetValue
#define CreateThread              kernel_CreateThread
#define WriteFile                 kernel_WriteFile
#endif

#endif
