/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in's scheduler: which rank goes on, which body runs, what time it is. In: the seed; out: one legal
 * interleaving. See standin.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/nccl/standin_impl.h"

struct standin standin;
static _Thread_local struct host *self;

#define STUCK_AFTER 100 /* sleeps in a row while no body can run */

struct host *standin_self(void) {
  CHECK(self, "a call from a thread that is no rank's");
  return self;
}

void list_add(struct list *list, void *row) {
  if (list->count == list->room) {
    list->room = list->room ? 2 * list->room : 8;
    list->rows = realloc(list->rows, list->room * sizeof *list->rows);
    CHECK(list->rows, "memory");
  }
  list->rows[list->count++] = row;
}

void list_remove(struct list *list, void *row) {
  for (uint64_t i = 0; i < list->count; i++) {
    if (list->rows[i] == row) list->rows[i--] = list->rows[--list->count];
  }
}

void list_free(struct list *list) {
  free(list->rows);
  *list = (struct list){0};
}

void standin_violates(const char *format, ...) {
  if (standin.violation[0]) return;
  va_list args;
  va_start(args, format);
  vsnprintf(standin.violation, sizeof standin.violation, format, args);
  va_end(args);
}

const char *standin_violation(void) {
  return standin.violation[0] ? standin.violation : NULL;
}

const char *standin_stuck(void) {
  return standin.stuck[0] ? standin.stuck : NULL;
}

struct standin_counts standin_counts(uint32_t rank) {
  return standin.hosts[rank].counts;
}

uint64_t standin_random(uint64_t below) {
  standin.random ^= standin.random << 13;
  standin.random ^= standin.random >> 7;
  standin.random ^= standin.random << 17;
  return (standin.random >> 11) % below;
}

/* ---- what everyone waits for ------------------------------------------------------------------------------------- */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
  size_t used = strlen(standin.stuck);
  va_list args;
  va_start(args, format);
  vsnprintf(standin.stuck + used, sizeof standin.stuck - used, format, args);
  va_end(args);
}

static void say_op(const struct op *op) {
  static const char *const kinds[] = {"mark", "kernel", "copy", "set", "group"};
  if (op->state == OP_DONE || op->state == OP_NEVER || op->kind == OP_MARK) return;
  say("  rank %u: %s %llu ", op->rank, kinds[op->kind], (unsigned long long)op->number);
  if (op->state != OP_STARTED) {
    say("waits for %llu before it\n", (unsigned long long)op->missing);
    return;
  }
  say("has started and waits for");
  for (uint64_t i = 0; i < op->part_count; i++) {
    const struct part *part = &op->parts[i];
    if (!part->done)
      say(" %s %u (%llu bytes)", part->is_send ? "to" : "from", part->peer, (unsigned long long)part->bytes);
  }
  say("\n");
}

static void note_stuck(void) {
  if (standin.stuck[0]) return;
  say("seed %llu: nothing but time goes on\n", (unsigned long long)standin.options.seed);
  for (uint32_t r = 0; r < standin.options.world; r++) {
    const struct host *host = &standin.hosts[r];
    say("  rank %u %s%s\n", r,
        host->dead                  ? "is dead"
        : host->state == HOST_ENDED ? "has ended"
                                    : "waits: ",
        host->state == HOST_BLOCKED    ? host->why
        : host->state == HOST_SLEEPING ? "polling"
                                       : "");
  }
  for (uint64_t i = 0; i < standin.ops.count; i++) {
    const struct op *op = standin.ops.rows[i];
    if (op->submitted) say_op(op);
  }
}

/* ---- picking ----------------------------------------------------------------------------------------------------- */

static bool can_go(const struct host *host) {
  if (host->state == HOST_READY) return true;
  if (host->state == HOST_SLEEPING) return host->wake <= standin.now;
  return host->state == HOST_BLOCKED && (host->ready(host->ready_arg) || host->wake <= standin.now);
}

static bool sleeps(const struct host *host) {
  return host->state == HOST_SLEEPING || (host->state == HOST_BLOCKED && host->wake != UINT64_MAX);
}

static struct host *choose_host(bool (*is)(const struct host *), uint32_t *count) {
  struct host *chosen = NULL;
  *count = 0;
  for (uint32_t r = 0; r < standin.options.world; r++) {
    if (is(&standin.hosts[r]) && standin_random(++*count) == 0) chosen = &standin.hosts[r];
  }
  return chosen;
}

static struct host *first_to_wake(void) {
  struct host *first = NULL;
  for (uint32_t r = 0; r < standin.options.world; r++) {
    struct host *host = &standin.hosts[r];
    if (sleeps(host) && (!first || host->wake < first->wake)) first = host;
  }
  return first;
}

/* What a body belongs to: the seed holds one of these back for a while. */
static uint32_t lane_of(const struct op *op) {
  return (uint32_t)((op->rank * 16 + op->stream->lane) % (standin.options.world * 16));
}

static const struct op *op_of_action(uint64_t i) {
  if (i < standin.ready.count) return standin.ready.rows[i];
  i -= standin.ready.count;
  return i < standin.pairs.count ? ((struct part *)standin.pairs.rows[i])->group : NULL;
}

static uint64_t actions(void) {
  return standin.ready.count + standin.pairs.count + standin.jobs.count;
}

static void act(void) {
  uint64_t count = actions(), i = standin_random(count);
  for (int tries = 0; tries < 6; tries++) {
    const struct op *op = op_of_action(i);
    if (!op || lane_of(op) != standin.lag) break;
    i = standin_random(count);
  }
  standin.idle = 0;
  standin_open_memory(true);
  if (i < standin.ready.count)
    standin_run_op(standin.ready.rows[i]);
  else if (i - standin.ready.count < standin.pairs.count)
    standin_run_pair(standin.pairs.rows[i - standin.ready.count]);
  else
    standin_run_job(standin.jobs.rows[i - standin.ready.count - standin.pairs.count]);
}

/* Every so often another part of the whole is slow, or none. */
static void change_pace(void) {
  if (standin.until-- > 0) return;
  standin.until = 4 + standin_random(60);
  standin.lag = (uint32_t)standin_random((uint64_t)standin.options.world * 20);
  standin.eager = standin_random(4);
}

static bool wants_host(uint32_t able) {
  static const uint64_t of_eight[] = {1, 3, 6, 8};
  if (actions() == 0) return true;
  return able > 0 ? standin_random(8) < of_eight[standin.eager] : standin_random(16) == 0;
}

/* Bodies run here until a rank is to go on. */
static struct host *pick(void) {
  for (;;) {
    uint32_t able;
    change_pace();
    struct host *host = choose_host(can_go, &able);
    if (!wants_host(able)) {
      act();
      continue;
    }
    if (host) return host;
    host = first_to_wake();
    if (!host && actions() > 0) {
      act();
      continue;
    }
    if (!host) {
      note_stuck();
      CHECK(false, "no rank can ever go on:\n%s%s", standin.stuck, standin.violation);
    }
    if (actions() == 0 && ++standin.idle > STUCK_AFTER && standin.unfinished > 0) note_stuck();
    if (host->wake > standin.now) standin.now = host->wake;
    return host;
  }
}

static void sleep_until_picked(struct host *host) {
  while (sem_wait(&host->go) != 0) continue;
}

static void hand_over(struct host *from, struct host *to) {
  bool ended = from->state == HOST_ENDED;
  if (to) sem_post(&to->go); /* from here on `to` runs, and this thread touches nothing */
  if (!ended) sleep_until_picked(from);
}

static void reschedule(void) {
  struct host *host = self, *next = pick();
  host->counts.picks++;
  standin_open_memory(false);
  if (next != host) hand_over(host, next);
  host->state = HOST_READY;
}

bool standin_enter(const char *name) {
  struct host *host = standin_self();
  CHECK(!host->dead, "%s: rank %u is dead", name, host->rank);
  standin.now += 300;
  /* Polls always let others go on, or nothing might; of the many calls that only set up, some do. */
  if (strstr(name, "Query") || strstr(name, "Async") || standin_random(3) == 0) reschedule();
  const char *always = standin.options.fail_always;
  if (always && strcmp(name, always) == 0) {
    host->counts.failed_always++;
    return false;
  }
  if (++host->counts.calls != standin.options.fail_call || host->rank != standin.options.rank) return true;
  host->counts.failed = name;
  return false;
}

void standin_block(const char *why, bool (*ready)(void *arg), void *arg, uint64_t deadline) {
  struct host *host = standin_self();
  host->why = why;
  host->ready = ready;
  host->ready_arg = arg;
  host->wake = deadline;
  host->state = HOST_BLOCKED;
  reschedule();
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* These take the place of libc's, for ranks' threads. */
int clock_gettime(clockid_t clock, struct timespec *at);
int nanosleep(const struct timespec *time, struct timespec *left);

int clock_gettime(clockid_t clock, struct timespec *at) {
  if (!self) return (int)syscall(SYS_clock_gettime, clock, at);
  uint64_t now = standin.now + 1000000000u;
  *at = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
  return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left) {
  if (!self) return (int)syscall(SYS_nanosleep, time, left);
  self->wake = standin.now + (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
  self->state = HOST_SLEEPING;
  reschedule();
  return 0;
}

void standin_sleep(double seconds) {
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

void standin_fail(uint32_t rank, uint64_t call) {
  standin.options.rank = rank;
  standin.options.fail_call = call > 0 ? standin.hosts[rank].counts.calls + call : 0;
  standin.hosts[rank].counts.failed = NULL;
}

double standin_now(void) {
  return (double)standin.now * 1e-9;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

void standin_begin(const struct standin_options *options) {
  standin = (struct standin){.options = *options, .random = options->seed * 0x9e3779b97f4a7c15u + 1};
  standin.hosts = calloc(options->world, sizeof *standin.hosts);
  CHECK(standin.hosts && options->world > 0, "memory");
  for (uint32_t r = 0; r < options->world; r++) {
    standin.hosts[r].rank = r;
    CHECK(sem_init(&standin.hosts[r].go, 0, 0) == 0, "semaphore");
    standin.hosts[r].state = HOST_ENDED;
  }
  for (int i = 0; i < 4; i++) standin_random(2);
  standin_memory_begin();
}

struct seat {
  struct host *host;
  void (*body)(uint32_t rank, void *arg);
  void *arg;
};

static void *thread(void *arg) {
  struct seat *seat = arg;
  struct host *host = seat->host;
  sleep_until_picked(host);
  self = host;
  host->state = HOST_READY;
  seat->body(host->rank, seat->arg);
  host->state = HOST_ENDED;
  self = NULL;
  struct host *next = --standin.live > 0 ? pick() : NULL;
  standin_open_memory(false);
  hand_over(host, next);
  return NULL;
}

/* What is still queued runs to its end, where it has one. */
static void drain(void) {
  while (actions() > 0) act();
  standin_open_memory(false);
  if (standin.unfinished > 0) note_stuck();
}

void standin_run(void (*body)(uint32_t rank, void *arg), void *arg) {
  uint32_t world = standin.options.world;
  struct seat *seats = calloc(world, sizeof *seats);
  CHECK(seats, "memory");
  standin.live = world;
  standin_open_memory(false);
  for (uint32_t r = 0; r < world; r++) {
    struct host *host = &standin.hosts[r];
    seats[r] = (struct seat){host, body, arg};
    host->state = HOST_READY;
    CHECK(pthread_create(&host->thread, NULL, thread, &seats[r]) == 0, "thread");
  }
  sem_post(&standin.hosts[standin_random(world)].go);
  for (uint32_t r = 0; r < world; r++) pthread_join(standin.hosts[r].thread, NULL);
  free(seats);
  drain();
  standin_memory_check();
  standin_open_memory(true);
}

void standin_kill(void) {
  struct host *host = standin_self();
  host->dead = true;
  for (uint64_t i = 0; i < standin.ops.count; i++) {
    struct op *op = standin.ops.rows[i];
    if (op->rank != host->rank || op->state == OP_DONE) continue;
    list_remove(&standin.ready, op);
    if (op->submitted && op->state != OP_NEVER) standin.unfinished--;
    op->state = OP_NEVER;
  }
  standin_kill_comms(host);
}

const char *standin_leak(void) {
  static char text[200];
  for (uint32_t r = 0; r < standin.options.world; r++) {
    const struct host *h = &standin.hosts[r];
    uint64_t all = h->streams.count + h->events.count + h->graphs.count + h->execs.count + h->libraries.count +
                   h->comms.count + h->allocations;
    if (h->dead || all == 0) continue;
    snprintf(text, sizeof text,
             "rank %u still has %llu streams, %llu events, %llu graphs, %llu executable ones, %llu libraries, %llu "
             "communicators, %llu blocks of memory",
             r, (unsigned long long)h->streams.count, (unsigned long long)h->events.count,
             (unsigned long long)h->graphs.count, (unsigned long long)h->execs.count,
             (unsigned long long)h->libraries.count, (unsigned long long)h->comms.count,
             (unsigned long long)h->allocations);
    return text;
  }
  return NULL;
}
