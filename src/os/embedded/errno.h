/* SPDX-License-Identifier: MIT
 * Replaces the C library's header. <tidepool/embedded.h> has the variable. */
#ifndef OS_EMBEDDED_ERRNO_H
#define OS_EMBEDDED_ERRNO_H

extern int pool_embedded_errno;
#define errno pool_embedded_errno

enum { ENOMEM = 12, EINVAL = 22 };

#endif
