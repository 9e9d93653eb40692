// How freed blocks return to their owners: src/channel.c and src/sub.c, model-checked by
// ./check.sh.
//
// A process is a heap together with the threads that hold it one after another, which the
// registry's lock ensures: a thread dies (sending its batches) and the next one adopts what it
// left, its thread cache included. Heap 0 owns both spans at first. While it is dead, a thread of
// heap 1 may claim it, empty its channels and make heap 1 the owner of a span, so that blocks in
// transit to heap 0 must be forwarded; heap 1 does not wait for that here, which only adds
// executions. (The allocator moves all spans at once, and later threads of heap 0 make new ones.)
// Heap 2 owns nothing, and its last thread is followed not by another, but by one that claims the
// heap and empties its cache. Any thread frees any block of the program, into its cache or not, and
// an owner, or a thread that has one in its cache, allocates blocks again.
//
// A thread that would need fresh memory intercepts the message queues of another heap instead, at any time:
// while the receiver, or another interceptor, empties the same inbox. Blocks that others own it
// keeps in the thread cache. A thread empties its cache whenever it likes, as fc_trim does. It needs fresh memory
// a limited number of times, or blocks could be intercepted for ever.
//
// A step is one access to memory that others write; what a thread does with its own memory is
// merged into it. Processes have no state outside the heaps except their program counter.
//
// Properties
//   none twice     a block is in one place, and changes places only as it may (assertions in MOVE)
//   none lost      every execution ends with every block in the free list of its owner
//                  (any other end is an invalid end state)
//   none unseen    a channel with no send in progress has its pending flag set unless it is empty or
//                  its inbox is being emptied (assertion in NOT_UNSEEN)
//   come home      eventually all blocks are with their owners (ltl): no livelock, however the threads
//                  are scheduled, as long as one that can make progress does
//
// One of these breaks the protocol, and a property must fail:
//   -DFLAG_BEFORE_PUSH      a sender sets the pending flag and then puts the batch in place
//   -DLOAD_AND_STORE        a channel is emptied by a load and a store
//   -DCLEAR_AFTER_TAKE      a pending flag is cleared after its channel was emptied
//   -DDIE_WITHOUT_FLUSH     a thread leaves blocks in its batches when it dies
//   -DABSORB_WITHOUT_CACHE  a heap that no thread will have again keeps its cache
//   -DKEEP_ABSORBED         a receiver frees blocks of spans that it no longer owns
//   -DKEEP_INTERCEPTED      an interceptor frees blocks of others
//   -DTAKE_FIRST_ONLY       an interceptor clears all pending flags and empties but one of the channels

// Two interceptions are the least for two interceptors and the receiver in one inbox. One more
// of any of these numbers doubles the states or more.
#ifndef BLOCKS
#define BLOCKS 3
#endif
// How often a freed block is allocated again, in all.
#ifndef ALLOCATIONS
#define ALLOCATIONS 1
#endif
// How often a thread intercepts, in all.
#ifndef INTERCEPTIONS
#define INTERCEPTIONS 2
#endif
// How many threads of heaps 0 and 2 die, each.
#ifndef DEATHS
#define DEATHS 1
#endif

#define HEAPS 3
#define SPANS 2
#define NIL BLOCKS

#define CHANNEL(receiver, sender) ((receiver) * HEAPS + (sender))

// ---- Memory ----

byte next[BLOCKS + 1];           // links of lists; that of NIL is never read
byte head[HEAPS * HEAPS];        // channels: lists of blocks
byte pending[HEAPS];             // bit s: the channel from s needs emptying
byte first[HEAPS * HEAPS];       // batches of the sub heaps: CHANNEL(to, from)
byte last[HEAPS * HEAPS];
byte cache[HEAPS];               // bit b: the sub heap keeps block b to hand it out again
byte owner[SPANS];               // heaps
byte allocations;
byte interceptions;

#define SPAN(block) ((block) % SPANS)

// ---- What the properties are about; no step depends on it ----

mtype = { LIVE, CACHE, BATCH, SENT, HOME };
mtype place[BLOCKS];
bool sending[HEAPS * HEAPS];
byte emptying[HEAPS];            // how many threads empty the inbox

inline MOVE(block, from, to) {
    assert(block != NIL && place[block] == from);
    place[block] = to
}

inline NOT_UNSEEN(receiver, sender) {
    assert(head[CHANNEL(receiver, sender)] == NIL || (pending[receiver] & (1 << sender)) ||
           sending[CHANNEL(receiver, sender)] || emptying[receiver] > 0)
}

// ---- The allocator ----

// Into the batch of `self` for the heap that owns the block: forward in sub.c.
inline forward(block, from) {
    MOVE(block, from, BATCH);
    to = owner[SPAN(block)];
    next[block] = first[CHANNEL(to, self)];
    if
    :: first[CHANNEL(to, self)] == NIL -> last[CHANNEL(to, self)] = block
    :: else
    fi;
    first[CHANNEL(to, self)] = block;
    to = 0
}

inline put_home(block, from) {
    MOVE(block, from, HOME);
    assert(owner[SPAN(block)] == self);
    next[block] = NIL
}

// fc_sub_keep.
inline keep(block, from) {
    MOVE(block, from, CACHE);
    cache[self] = cache[self] | (1 << block);
    next[block] = NIL
}

// A batch into the channel to `to`: fc_channel_send.
inline send() {
    atomic {
        sending[CHANNEL(to, self)] = true;
        old = head[CHANNEL(to, self)]
    };
#ifdef FLAG_BEFORE_PUSH
    if
    :: old == NIL -> pending[to] = pending[to] | (1 << self)
    :: else
    fi;
#endif
    do
    :: d_step {
        next[last[CHANNEL(to, self)]] = old;
        if
        :: head[CHANNEL(to, self)] == old ->
            swapped = true;
            head[CHANNEL(to, self)] = first[CHANNEL(to, self)];
            block = first[CHANNEL(to, self)];
            do
            :: MOVE(block, BATCH, SENT);
               if
               :: block == last[CHANNEL(to, self)] -> break
               :: else -> block = next[block]
               fi
            od;
            block = NIL;
            first[CHANNEL(to, self)] = NIL;
            last[CHANNEL(to, self)] = NIL
        :: else -> old = head[CHANNEL(to, self)]
        fi
       };
       if
       :: swapped -> break
       :: else
       fi
    od;
    atomic {
        swapped = false;
#ifndef FLAG_BEFORE_PUSH
        if
        :: old == NIL -> pending[to] = pending[to] | (1 << self)
        :: else
        fi;
#endif
        old = NIL;
        sending[CHANNEL(to, self)] = false;
        NOT_UNSEEN(to, self);
        to = 0
    }
}

// All channels of the inbox of heap `box` that have messages: fc_channel_collect if the inbox is
// that of `self`, fc_channel_intercept otherwise.
inline empty_inbox() {
    d_step {
        emptying[box]++;
        flags = pending[box];
#ifndef CLEAR_AFTER_TAKE
        pending[box] = 0
#endif
    };
    do
    :: atomic { flags & 1 -> from = 0 }; take()
    :: atomic { !(flags & 1) && (flags & 2) -> from = 1 }; take()
    :: atomic { !(flags & 3) && (flags & 4) -> from = 2 }; take()
    :: flags == 0 -> break
    od;
    atomic {
#ifdef CLEAR_AFTER_TAKE
        pending[box] = 0;
#endif
        emptying[box]--;
        from = 0;
        do
        :: from < HEAPS -> NOT_UNSEEN(box, from); from++
        :: else -> break
        od;
        from = 0;
        box = self
    }
}

inline take() {
#ifdef LOAD_AND_STORE
    old = head[CHANNEL(box, from)];
#endif
    d_step {
#ifdef LOAD_AND_STORE
        block = old;
        old = NIL;
#else
        block = head[CHANNEL(box, from)];
#endif
        head[CHANNEL(box, from)] = NIL;
        flags = flags & ~(1 << from);
#ifdef TAKE_FIRST_ONLY
        if
        :: box != self -> flags = 0
        :: else
        fi;
#endif
        from = 0;
        // Whether `self` is the owner changes only while it is dead, or by a thread of its own.
        do
        :: block != NIL ->
            old = next[block];
            if
            :: owner[SPAN(block)] == self -> put_home(block, SENT)
#ifdef KEEP_ABSORBED
            :: owner[SPAN(block)] != self && box == self -> put_home(block, SENT)
#else
            :: owner[SPAN(block)] != self && box == self -> forward(block, SENT)
#endif
#ifdef KEEP_INTERCEPTED
            :: owner[SPAN(block)] != self && box != self -> put_home(block, SENT)
#else
            :: owner[SPAN(block)] != self && box != self -> keep(block, SENT)
#endif
            fi;
            block = old
        :: else -> break
        od;
        old = NIL
    }
}

// ---- The program ----

#define HAS_BATCH(to) (first[CHANNEL(to, self)] != NIL)
#define CAN_ALLOCATE(b) \
    (allocations < ALLOCATIONS && place[b] == HOME && owner[SPAN(b)] == self)

// Nothing is ever sent to heap 2.
#define CAN_INTERCEPT(receiver) \
    (receiver != self && pending[receiver] != 0 && interceptions < INTERCEPTIONS)

#define ALL(condition) (condition(0) && condition(1) && condition(2))
#define IS_HOME(b) (place[b] == HOME)
#define finished ALL(IS_HOME)

// Into the cache, or to the free list if the block is ours and else into a batch: fc_sub_put.
inline free(b) {
    if
    :: keep(b, LIVE)
    :: owner[SPAN(b)] == self -> put_home(b, LIVE)
    :: owner[SPAN(b)] != self -> forward(b, LIVE)
    fi
}

#define KEEPS(b) (cache[self] & (1 << b))
#define CAN_HAND_OUT(b) (allocations < ALLOCATIONS && KEEPS(b))

// fc_sub_take.
inline hand_out(b) {
    MOVE(b, CACHE, LIVE);
    cache[self] = cache[self] & ~(1 << b);
    allocations++
}

// The owner may have changed since, even to us.
inline uncache(b) {
    cache[self] = cache[self] & ~(1 << b);
    if
    :: owner[SPAN(b)] == self -> put_home(b, CACHE)
    :: else -> forward(b, CACHE)
    fi
}

// As uncache, for a heap that owns nothing.
inline send_on(b) {
    cache[self] = cache[self] & ~(1 << b);
    forward(b, CACHE)
}

// Every batch into its channel: fc_sub_send.
inline send_all() {
    do
    :: atomic { HAS_BATCH(0) -> to = 0 }; send()
    :: atomic { HAS_BATCH(1) -> to = 1 }; send()
    :: !HAS_BATCH(0) && !HAS_BATCH(1) -> break
    od
}

proctype heap(byte self) {
    byte box = self, old = NIL, block = NIL, to = 0, from = 0, flags = 0, deaths = 0;
    bool swapped = false, emptied = false;

alive:
    do
    :: atomic { place[0] == LIVE -> free(0) }
    :: atomic { place[1] == LIVE -> free(1) }
    :: atomic { place[2] == LIVE -> free(2) }
    :: atomic { CAN_ALLOCATE(0) -> MOVE(0, HOME, LIVE); allocations++ }
    :: atomic { CAN_ALLOCATE(1) -> MOVE(1, HOME, LIVE); allocations++ }
    :: atomic { CAN_ALLOCATE(2) -> MOVE(2, HOME, LIVE); allocations++ }
    :: atomic { CAN_HAND_OUT(0) -> hand_out(0) }
    :: atomic { CAN_HAND_OUT(1) -> hand_out(1) }
    :: atomic { CAN_HAND_OUT(2) -> hand_out(2) }
    :: atomic { KEEPS(0) -> uncache(0) }
    :: atomic { KEEPS(1) -> uncache(1) }
    :: atomic { KEEPS(2) -> uncache(2) }
    :: atomic { HAS_BATCH(0) -> to = 0 }; send()
    :: atomic { HAS_BATCH(1) -> to = 1 }; send()
    :: pending[self] != 0 -> empty_inbox()
    :: atomic { CAN_INTERCEPT(0) -> box = 0; interceptions++ }; empty_inbox()
    :: atomic { CAN_INTERCEPT(1) -> box = 1; interceptions++ }; empty_inbox()
    :: self != 1 && deaths < DEATHS -> deaths++; goto die
    // Every freed block is with its owner: nothing is left to do.
    :: finished && allocations == ALLOCATIONS -> goto end
    od;

die:
#ifndef DIE_WITHOUT_FLUSH
    send_all();
#endif
    if
    :: atomic { emptied && owner[0] == 0 -> owner[0] = 1; emptied = false }
    :: atomic { emptied && owner[1] == 0 -> owner[1] = 1; emptied = false }
    :: !emptied && self == 0 && (owner[0] == 0 || owner[1] == 0) -> empty_inbox(); emptied = true; goto die
    :: !emptied
    fi;
    if
    :: self == 0 || deaths < DEATHS -> goto alive
    :: else
    fi;
#ifndef ABSORB_WITHOUT_CACHE
    // A heap that owns nothing is claimed for its cache alone.
    if
    :: cache[self] != 0 ->
        do
        :: atomic { KEEPS(0) -> send_on(0) }
        :: atomic { KEEPS(1) -> send_on(1) }
        :: atomic { KEEPS(2) -> send_on(2) }
        :: cache[self] == 0 -> break
        od;
        send_all()
    :: else
    fi;
#endif

end:
    skip
}

init {
    byte i = 0;
    d_step {
        do
        :: i < HEAPS * HEAPS -> head[i] = NIL; first[i] = NIL; last[i] = NIL; i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < BLOCKS -> next[i] = NIL; place[i] = LIVE; i++
        :: else -> break
        od;
        i = 0
    };
    atomic { run heap(0); run heap(1); run heap(2) }
}

ltl terminates { <> [] finished }
