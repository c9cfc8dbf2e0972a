/* SPDX-License-Identifier: MIT */
#define KERNEL_ITSELF
#include "kernel.h"
#include <errno.h>

enum { ERRNO_BEFORE = 4711, ERROR_BEFORE = 4712 };

kernel_t kernel;

void all_new(void)
{
  os_forbid(false); /* gcc's thread-local variables are allocated at their first use, which sets the last error */
  memset(&kernel, 0, sizeof kernel);
  errno = ERRNO_BEFORE;
  SetLastError(ERROR_BEFORE);
}

bool errors_are_kept(void) { return errno == ERRNO_BEFORE && GetLastError() == ERROR_BEFORE; }

static bool fails(DWORD error)
{
  if (error)
    SetLastError(error);
  return error;
}

void *kernel_VirtualAlloc(void *address, SIZE_T size, DWORD type, DWORD protection)
{
  kernel.reserves += (type & MEM_RESERVE) != 0;
  kernel.commits += (type & MEM_COMMIT) != 0;
  if (address && type & MEM_RESERVE && kernel.reserve_fail) {
    kernel.reserve_fail--;
    return SetLastError(ERROR_INVALID_ADDRESS), NULL;
  }
  if ((type & MEM_RESERVE && fails(kernel.reserve)) || (type & MEM_COMMIT && fails(kernel.commit)) ||
      (type & MEM_RESET && fails(kernel.reset)))
    return NULL;
  return VirtualAlloc(address, size, type, protection);
}

BOOL kernel_VirtualFree(void *address, SIZE_T size, DWORD type)
{
  kernel.releases += type == MEM_RELEASE;
  return !fails(type == MEM_RELEASE ? kernel.release : kernel.decommit) && VirtualFree(address, size, type);
}

BOOL kernel_VirtualLock(void *address, SIZE_T size) { return !fails(kernel.lock) && VirtualLock(address, size); }

BOOL kernel_QueryInformationJobObject(HANDLE job, JOBOBJECTINFOCLASS what, void *to, DWORD length, DWORD *written)
{
  if (fails(kernel.job))
    return FALSE;
  must(!job && what == JobObjectExtendedLimitInformation && length == sizeof(JOBOBJECT_EXTENDED_LIMIT_INFORMATION) && !written);
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION *limits = to;
  *limits = (JOBOBJECT_EXTENDED_LIMIT_INFORMATION){.ProcessMemoryLimit = kernel.limit};
  limits->BasicLimitInformation.LimitFlags = kernel.limit ? JOB_OBJECT_LIMIT_PROCESS_MEMORY : 0;
  return TRUE;
}

DWORD kernel_TlsAlloc(void) { return fails(kernel.slot) ? TLS_OUT_OF_INDEXES : TlsAlloc(); }
BOOL kernel_TlsSetValue(DWORD slot, void *value) { return !fails(kernel.set_slot) && TlsSetValue(slot, value); }

HANDLE kernel_CreateThread(SECURITY_ATTRIBUTES *security, SIZE_T stack, LPTHREAD_START_ROUTINE run, void *argument, DWORD flags,
                           DWORD *number)
{
  return fails(kernel.thread) ? NULL : CreateThread(security, stack, run, argument, flags, number);
}

BOOL kernel_WriteFile(HANDLE file, const void *bytes, DWORD length, DWORD *written, OVERLAPPED *overlapped)
{
  kernel.writes++;
  if (kernel.write_most && length > kernel.write_most)
    length = kernel.write_most;
  return !fails(kernel.write) && WriteFile(file, bytes, length, written, overlapped);
}
