/* SPDX-License-Identifier: MIT
 * The mangled names of C++ new and delete. They contain the type of a size: m is unsigned long, as on 64-bit machines, and j is
 * unsigned int, as on i386 and 32-bit ARM. The sources write m. */
#ifndef API_NEW_NAMES_H
#define API_NEW_NAMES_H

#if __SIZEOF_SIZE_T__ == __SIZEOF_INT__
#define _Znwm                              _Znwj
#define _Znam                              _Znaj
#define _ZnwmRKSt9nothrow_t                _ZnwjRKSt9nothrow_t
#define _ZnamRKSt9nothrow_t                _ZnajRKSt9nothrow_t
#define _ZnwmSt11align_val_t               _ZnwjSt11align_val_t
#define _ZnamSt11align_val_t               _ZnajSt11align_val_t
#define _ZnwmSt11align_val_tRKSt9nothrow_t _ZnwjSt11align_val_tRKSt9nothrow_t
#define _ZnamSt11align_val_tRKSt9nothrow_t _ZnajSt11align_val_tRKSt9nothrow_t
#define _ZdlPvm                            _ZdlPvj
#define _ZdaPvm                            _ZdaPvj
#define _ZdlPvmSt11align_val_t             _ZdlPvjSt11align_val_t
#define _ZdaPvmSt11align_val_t             _ZdaPvjSt11align_val_t
#endif

/* The names above are replaced in an argument before # and ## see it. */
#define NAME_JOINED(before, name)  NAME_JOINED_(before, name)
#define NAME_JOINED_(before, name) before##name
#define NAME_TEXT(name)            NAME_TEXT_(name)
#define NAME_TEXT_(name)           #name

#endif
