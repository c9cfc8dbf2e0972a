/* SPDX-License-Identifier: MIT
 * A library that is loaded in place of another, with the same function at the same address, whose frame is of another length.
 */
typedef void call_t(void *argument);
void call_from_module(call_t *call, void *argument);
void call_from_module(call_t *call, void *argument)
{
  volatile char room[ROOM];
  room[0] = 1;
  call(argument);
  room[0]++;
}
