/* SPDX-License-Identifier: MIT */
#ifndef WORKER_H
#define WORKER_H

/* Plays the plan of this descriptor with the malloc that this process has, writes the result into it, and ends the process. */
_Noreturn void worker_run(int file);

#endif
