/* SPDX-License-Identifier: MIT
 *
 * A sound mixer with sixteen voices. A new sound always plays: when all voices are taken, the quietest gives way
 * (OBJECT_POOL_EVICT). Whoever started a sound keeps a handle, and finds out when its voice was taken or has ended.
 *
 *     mixer FILE.wav     renders eight seconds of rain on bells
 *     mixer --test       renders without writing; checks itself */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>

enum { RATE = 22050, SECONDS = 8, SAMPLES = RATE * SECONDS, VOICES = 16, NOTES_PER_SECOND = 18, CHORD = 7 };

/* A bell: a sine that two numbers carry on, sinking. */
typedef struct voice {
  float now, before, turn; /* next = turn * now - before */
  float loudness, fade;
} voice_t;

OBJECT_POOL_DEFINE(voices, voice_t);

typedef struct mixer {
  voices_t *voices;
  unsigned random;
  size_t started, replaced, ended;
} mixer_t;

static void *quietest(object_pool_t *pool, void *context)
{
  mixer_t *mixer = context;
  voice_t *found = NULL;
  for (voice_t *v = NULL; (v = object_pool_next(pool, v)) != NULL;)
    if (!found || v->loudness < found->loudness)
      found = v;
  mixer->replaced++;
  return found;
}

static unsigned dice(mixer_t *mixer, unsigned sides)
{
  mixer->random = mixer->random * 1664525u + 1013904223u;
  return (mixer->random >> 16) % sides;
}

/* 2 cos(2 pi f / RATE) by its series; f is small against RATE. */
static float turn_of(float frequency)
{
  float w = 6.2831853f * frequency / RATE, w2 = w * w;
  return 2 * (1 - w2 / 2 + w2 * w2 / 24 - w2 * w2 * w2 / 720);
}

static object_pool_handle_t play(mixer_t *mixer)
{
  static const float pentatonic[] = {440, 494, 554, 659, 740, 880, 988, 1109};
  voice_t *voice = voices_get(mixer->voices);
  float frequency = pentatonic[dice(mixer, 8)], turn = turn_of(frequency);
  *voice = (voice_t){.now = 0,
                     .before = -6.2831853f * frequency / RATE,
                     .turn = turn,
                     .loudness = 0.1f + 0.01f * (float)dice(mixer, 15),
                     .fade = 0.9997f};
  mixer->started++;
  return voices_handle(mixer->voices, voice);
}

static float mix(mixer_t *mixer)
{
  float sum = 0;
  for (voice_t *v = NULL; (v = voices_next(mixer->voices, v)) != NULL;) {
    float next = v->turn * v->now - v->before;
    v->before = v->now;
    v->now = next;
    sum += next * v->loudness;
    v->loudness *= v->fade;
    if (v->loudness < 0.002f) {
      voices_put(mixer->voices, v);
      mixer->ended++;
    }
  }
  return sum;
}

static int16_t clipped(float sample)
{
  float scaled = sample * 16000;
  return (int16_t)(scaled > 32767 ? 32767 : scaled < -32768 ? -32768 : scaled);
}

static int16_t samples[SAMPLES];

/* The first note's handle, to see that it is told of its end. */
static bool render(mixer_t *mixer)
{
  object_pool_handle_t first = {0, 0};
  for (int i = 0; i < SAMPLES; i++) {
    if (i == 0)
      first = play(mixer);
    else if (i % (RATE / NOTES_PER_SECOND) == 0)
      play(mixer);
    for (int note = 0; i % RATE == RATE / 2 && note < CHORD; note++)
      play(mixer);
    samples[i] = clipped(mix(mixer));
    if (i == 100 && !voices_resolve(mixer->voices, first))
      return false;
  }
  return voices_resolve(mixer->voices, first) == NULL;
}

static void little_endian(unsigned char *to, uint32_t value, int bytes)
{
  for (int i = 0; i < bytes; i++)
    to[i] = (unsigned char)(value >> 8 * i);
}

static bool write_wav(const char *path)
{
  unsigned char head[44] = "RIFF    WAVEfmt ";
  FILE *file = fopen(path, "wb");
  if (!file)
    return perror(path), false;
  little_endian(head + 4, 36 + 2 * SAMPLES, 4);
  little_endian(head + 16, 16, 4);
  little_endian(head + 20, 1, 2); /* PCM */
  little_endian(head + 22, 1, 2); /* one channel */
  little_endian(head + 24, RATE, 4);
  little_endian(head + 28, 2 * RATE, 4);
  little_endian(head + 32, 2, 2);
  little_endian(head + 34, 16, 2);
  memcpy(head + 36, "data", 4);
  little_endian(head + 40, 2 * SAMPLES, 4);
  bool good = fwrite(head, sizeof head, 1, file) == 1;
  for (int i = 0; i < SAMPLES && good; i++) {
    unsigned char sample[2];
    little_endian(sample, (uint16_t)samples[i], 2);
    good = fwrite(sample, 2, 1, file) == 1;
  }
  return fclose(file) == 0 && good;
}

static bool test(const mixer_t *mixer)
{
  int loudest = 0;
  for (int i = 0; i < SAMPLES; i++)
    loudest = abs(samples[i]) > loudest ? abs(samples[i]) : loudest;
  printf("%zu started, %zu replaced, %zu ended, %zu live, loudest sample %d\n", mixer->started, mixer->replaced, mixer->ended,
         voices_live(mixer->voices), loudest);
  return mixer->replaced > 10 && mixer->ended > 10 &&
         mixer->started == mixer->replaced + mixer->ended + voices_live(mixer->voices) && loudest > 3000;
}

int main(int argc, char **argv)
{
  mixer_t mixer = {.random = 7};
  if (argc != 2) {
    fputs("usage: mixer FILE.wav | --test\n", stderr);
    return EXIT_FAILURE;
  }
  mixer.voices = voices_create(&(object_pool_options_t){.name = "voices",
                                                        .capacity = VOICES,
                                                        .when_full = OBJECT_POOL_EVICT,
                                                        .choose_victim = quietest,
                                                        .context = &mixer,
                                                        .flags = OBJECT_POOL_SINGLE_THREAD});
  bool good = mixer.voices && render(&mixer) && (strcmp(argv[1], "--test") ? write_wav(argv[1]) : test(&mixer));
  voices_destroy(mixer.voices);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
