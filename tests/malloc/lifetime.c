/* SPDX-License-Identifier: MIT
 *
 * Allocation before main, in plug-ins and while the process ends.
 *
 * usage: lifetime PLUG-IN.so
 * At exit it prints "done" last of all, from a handler that ran after every other. */
#include "ours.h"
#include "testing.h"

#include <dlfcn.h>

struct plug_in {
  char *(*make_text)(const char *text);
  void (*free_text)(char *text);
  size_t (*thread_buffer_size)(void);
  size_t (*blocks_made)(void);
};

static char *made_before_main;
static const char *plug_in_file;

__attribute__((constructor(101))) static void before_main(void)
{
  made_before_main = strdup("made before main");
  for (size_t size = 1; size < MIB; size *= 2)
    free(malloc(opaque(size)));
}

/* Runs after main, after every atexit handler and after most libraries have been finished. */
__attribute__((destructor(101))) static void after_everything(void)
{
  static const char message[] = "done\n";
  for (size_t size = 1; size < MIB; size *= 2) {
    char *block = malloc(opaque(size));
    if (!block)
      _exit(1);
    block[size - 1] = 1;
    block = realloc(block, size * 2);
    if (!block)
      _exit(1);
    free(block);
  }
  free(made_before_main);
  if (write(STDOUT_FILENO, message, sizeof message - 1) < 0)
    _exit(1);
}

static void at_exit(void)
{
  char *block = calloc(opaque(1000), 1);
  if (!block || !is_filled(block, 0, 1000))
    _exit(1);
  free(block);
}

/* Its thread-local destructor-like handler runs while other threads still allocate. */
static void *allocate_forever(void *unused)
{
  for (uint32_t random = 9;;)
    free(malloc(next_random(&random) % 5000));
  return unused;
}

static void test_a_block_made_before_main(void **state)
{
  (void)state;
  assert_string_equal(made_before_main, "made before main");
  made_before_main = realloc(made_before_main, 10000);
  assert_non_null(made_before_main);
  assert_string_equal(made_before_main, "made before main");
}

static void *load_plug_in(struct plug_in *plug_in)
{
  void *handle = dlopen(plug_in_file, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    fail_msg("%s", dlerror());
  plug_in->make_text = (char *(*)(const char *))dlsym(handle, "plug_in_make_text");
  plug_in->free_text = (void (*)(char *))dlsym(handle, "plug_in_free_text");
  plug_in->thread_buffer_size = (size_t(*)(void))dlsym(handle, "plug_in_thread_buffer_size");
  plug_in->blocks_made = (size_t(*)(void))dlsym(handle, "plug_in_blocks_made");
  return handle;
}

static void *use_thread_buffer(void *argument)
{
  const struct plug_in *plug_in = argument;
  return plug_in->thread_buffer_size() > 0 ? NULL : "no thread-local buffer";
}

static void test_plug_ins_share_the_heap(void **state)
{
  (void)state;
  size_t held = 0;
  for (size_t round = 0; round < 300; round++) {
    struct plug_in plug_in;
    void *handle = load_plug_in(&plug_in);
    char *text = plug_in.make_text("from the plug-in");
    plug_in.free_text(strdup("from the program"));
    assert_true(plug_in.blocks_made() >= 100);
    pthread_t thread;
    start_thread(&thread, use_thread_buffer, &plug_in);
    assert_null(join_thread(thread));
    assert_int_equal(dlclose(handle), 0);
    assert_string_equal(text, "from the plug-in");
    free(text);
    if (round == 20)
      held = held_bytes();
  }
  HOLDS_AT_MOST(held + 2 * MIB);
}

static void test_plug_ins_load_while_others_allocate(void **state)
{
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    pthread_t thread;
    start_thread(&thread, allocate_forever, NULL);
    pthread_detach(thread);
  }
  for (size_t round = 0; round < 50; round++) {
    struct plug_in plug_in;
    void *handle = load_plug_in(&plug_in);
    free(plug_in.make_text("x"));
    assert_int_equal(dlclose(handle), 0);
  }
}

int main(int argc, char **argv)
{
  assert_true(argc > 1);
  plug_in_file = argv[1];
  atexit(at_exit);
  /* The last leaves threads behind that allocate until the process is gone, all through exit(). */
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_block_made_before_main),
    cmocka_unit_test(test_plug_ins_share_the_heap),
    cmocka_unit_test(test_plug_ins_load_while_others_allocate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
