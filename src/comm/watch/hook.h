/* What a program wants to know before its process ends (trine_on_abort). */
#ifndef TRINE_COMM_WATCH_HOOK_H
#define TRINE_COMM_WATCH_HOOK_H

/* Calls it, the first time. */
void hook_call(void);
/* Calls it and ends this process with status 1, without a flush: another thread may hold a stream's lock. */
_Noreturn void hook_end(void);

#endif
