/* SPDX-License-Identifier: MIT
 *
 * The program `tidepool`: one subcommand in a file each. */
#ifndef COMMAND_H
#define COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* The exit status of a wrong command line, for which nothing is run or read; and of a subcommand that fails itself. `run` has
 * the status of its program otherwise. Few programs use 125 to 127, and env(1) gives them the same meaning. */
enum { COMMAND_MISUSED = 2, COMMAND_FAILED = 125, COMMAND_NOT_EXECUTABLE = 126, COMMAND_NOT_FOUND = 127 };

/* Writes "tidepool: ", the words and a line feed to standard error. */
void command_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, and ends the program. */
_Noreturn void command_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What others wrote may be in it: a terminal is sent nothing that it would obey. Returns how many columns it took, as far as
 * each character takes one. */
int command_print(const char *text, FILE *to);

/* Joins the texts in memory of its own. There is no other use for memory than that, so running out of it ends the program. */
#define COMMAND_JOIN(...) command_join((const char *const[]){__VA_ARGS__, 0})
char *command_join(const char *const *texts);

/* Writes a text with quotes around it, as JSON and scripts have it: nothing in it ends a script, either, and what is no UTF-8
 * is said to be none. */
void command_quote(const char *text, FILE *to);

/* Of a folder in front of a name in which %p stands for something: %% for each %. There is room for twice as much. */
void command_mark_percent(char *to, const char *folder);

/* Bytes as people read them: 36.8 MiB. */
enum { COMMAND_BYTES = 32 };
const char *command_bytes(char room[COMMAND_BYTES], double bytes);

/* The number that an option has; what is none of `least` to `most` ends the program. */
struct argp_state;
unsigned long command_number(struct argp_state *state, const char *option, const char *text, unsigned long least,
                             unsigned long most);

/* Seconds that an option has, in nanoseconds; what are none ends the program. */
uint64_t command_seconds(struct argp_state *state, const char *option, const char *text);

/* What parses the one FILE that a subcommand has, and knows nothing else. */
int command_file(int key, char *argument, struct argp_state *state, const char **path);

/* The number of a process; 0: the text is none. A file of such a name is ./4711. */
pid_t command_pid(const char *text);

int command_run(int count, char **arguments);
int command_record(int count, char **arguments);
int command_replay(int count, char **arguments);
int command_fit(int count, char **arguments);
int command_show(int count, char **arguments);
int command_diff(int count, char **arguments);
int command_map(int count, char **arguments);
#ifdef WITH_REPORT
int command_report(int count, char **arguments);
int command_top(int count, char **arguments);
#endif

#endif
