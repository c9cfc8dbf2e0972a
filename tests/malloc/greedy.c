/* SPDX-License-Identifier: MIT
 * A library that needs 1 KiB of thread-local data in the static block, as some graphics drivers and runtimes do. */
__attribute__((tls_model("initial-exec"))) _Thread_local char greedy[1024];

char *greedy_data(void);
char *greedy_data(void) { return greedy; }
