// Memory first-touched before the program starts, by FCMALLOC_RESERVE.

#ifndef FC_POOL_H
#define FC_POOL_H

void fc_pool_fill(void);

#endif
