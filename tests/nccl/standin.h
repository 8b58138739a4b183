/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in: what the nccl backend calls of the CUDA runtime and of NCCL, on the host, for tests of the backend's
 * ordering. It is not NCCL, and it says nothing about NCCL's or a GPU's own behaviour.
 *
 * Ranks are threads of which one runs at a time; each call into the stand-in, each sleep and each wait on a channel is
 * a point where another may go on. Streams are queues; an operation's body (a kernel, a copy, one message between two
 * ranks) runs only when the scheduler picks it, after all that it must wait for and at no other time, in any order that
 * is left. Every pick comes from the seed, so a seed replays exactly. Time is the stand-in's own: it passes in calls
 * and sleeps. Memory of devices can be touched by bodies only; it is never handed out twice, poisoned when freed, and
 * watched around its edges.
 *
 * What breaks a rule of use is a *violation*: the first one is kept, in words.
 */
#ifndef TESTS_NCCL_STANDIN_H
#define TESTS_NCCL_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct standin_options {
  uint32_t world;
  uint64_t seed;
  /* Mutations and faults; 0 is none. */
  uint64_t drop_wait;      /* from 1: this cudaStreamWaitEvent of `rank` has no effect */
  uint64_t fail_call;      /* from 1: this call of `rank` returns an error and does nothing */
  const char *fail_always; /* calls of this name return an error, of all ranks, but do what they do */
  uint64_t drop_group;     /* from 1: this ncclGroupStart of `rank` has no effect */
  uint64_t swap_group;     /* from 1: this group of `rank` changes places with the next one */
  uint64_t cut_message;    /* from 1: this send of `rank` is a byte shorter */
  uint64_t flip_message;   /* from 1: a byte of what this message brings to `rank` is wrong */
  uint64_t free_early;     /* from 1: the block of this cudaMalloc of `rank` is freed when the first refit is queued */
  uint32_t rank;
  bool deaf; /* peers of a dead rank are never told by ncclCommGetAsyncError */
};

/* One run: begin, memory, run, look, end. Everything made between is gone after end. */
void standin_begin(const struct standin_options *options);
/* All ranks' threads, until each has returned. */
void standin_run(void (*body)(uint32_t rank, void *arg), void *arg);
void standin_end(void);

/* Device memory of a rank, filled with poison; for the caller's buffers. Touch it between runs only. */
unsigned char *standin_memory(uint32_t rank, uint64_t bytes, uint32_t align);
void standin_memory_free(unsigned char *ptr);
/* Bodies may run, so may the caller: outside of run. */
void standin_open_memory(bool open);

/* The control channel: a gather of all ranks' words, with the stand-in's time. `user` is a struct standin_seat. */
struct standin_channel;
struct standin_seat {
  struct standin_channel *channel;
  uint32_t rank;
};
struct standin_channel *standin_channel_new(uint32_t world); /* gone at end */
int standin_all_gather(void *user, const void *mine, size_t bytes, void *all, double timeout_seconds);

/* In a rank's thread: its process is killed. What it has queued never runs; the thread must return without a call. */
void standin_kill(void);
/* In a rank's thread: sleeps, in the stand-in's time. */
void standin_sleep(double seconds);
/* In a rank's thread: its device has no memory left, or has again. */
void standin_exhaust(bool empty);
double standin_now(void);
/* Between runs: so many calls of `rank` on, one fails. 0: none. */
void standin_fail(uint32_t rank, uint64_t call);

/* The first violation, or NULL. */
const char *standin_violation(void);
/* What everyone waited for when nothing could go on but time, or NULL. */
const char *standin_stuck(void);
/* What the ranks that live still hold of what they made, in words, or NULL. The caller's memory does not count. */
const char *standin_leak(void);
/* Of `rank` in this run: calls that may fail, waits, groups, sends, messages received, blocks, communicators from an
 * id, by shrinking and by growing, so far; the name of the call that was made to fail.
 */
struct standin_counts {
  uint64_t calls, waits, groups, sends, received, mallocs, comms, shrunk, grown, picks;
  const char *failed;
  uint64_t failed_always;
};
struct standin_counts standin_counts(uint32_t rank);

#endif
