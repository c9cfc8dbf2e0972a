/* SPDX-License-Identifier: MIT
 *
 * As CPython does for perf(1): blocks are allocated by a function that code calls which was made at run time, and which a file
 * names. It prints how many such pieces of code it has made; 0: the system allows none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 100, SIZE = 1000, PIECE = 32, PIECES_MOST = 2 };

typedef void allocate_t(void);
typedef void piece_t(allocate_t *allocate);

static void *volatile kept[PIECES_MOST * BLOCKS];
static int count;

#if defined __x86_64__
static const unsigned char codes[PIECES_MOST][PIECE] = {
  {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3}, /* sub $8, %rsp; call *%rdi; add $8, %rsp; ret */
  {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3},                   /* push %rbp; mov %rsp, %rbp; call *%rdi; pop %rbp; ret */
};
enum { PIECES = 2 };
#elif defined __aarch64__
static const unsigned char codes[PIECES_MOST][PIECE] = {
  /* stp x29, x30, [sp, -16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], 16; ret */
  {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00, 0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6},
};
enum { PIECES = 1 };
#else
static const unsigned char codes[PIECES_MOST][PIECE];
enum { PIECES = 0 };
#endif

__attribute__((noinline, noclone)) static void allocate(void)
{
  for (int i = 0; i < BLOCKS; i++)
    kept[count++] = malloc(SIZE);
}

__attribute__((noinline, noclone)) static void come_through(piece_t *piece)
{
  piece(allocate);
  count += 0 * (int)getpid(); /* no tail call */
}

int main(void)
{
  char path[64];
  unsigned char *memory = mmap(NULL, sizeof codes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
  if (memory == MAP_FAILED)
    return 1;
  memcpy(memory, codes, sizeof codes);
  FILE *file = fopen(path, "w");
  if (!file || mprotect(memory, sizeof codes, PROT_READ | PROT_EXEC) != 0)
    return puts("0") < 0;
  __builtin___clear_cache((char *)memory, (char *)memory + sizeof codes);
  for (int i = 0; i < PIECES; i++) {
    piece_t *piece;
    void *start = memory + (size_t)i * PIECE;
    memcpy(&piece, &start, sizeof piece);
    fprintf(file, "%lx %x py::made_%d:/srv/made.py\n", (unsigned long)start, (unsigned)PIECE, i);
    come_through(piece);
  }
  fclose(file);
  printf("%d %s\n", PIECES, path);
  return 0;
}
