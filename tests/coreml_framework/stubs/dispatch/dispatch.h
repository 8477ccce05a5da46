// What framework.mm uses of Grand Central Dispatch.
#pragma once

#include <cstdint>

#import <Foundation/Foundation.h>

@protocol OS_dispatch_queue <NSObject>
@end
@protocol OS_dispatch_semaphore <NSObject>
@end
typedef id<OS_dispatch_queue> dispatch_queue_t;
typedef id<OS_dispatch_semaphore> dispatch_semaphore_t;
typedef uint64_t dispatch_time_t;
#define DISPATCH_TIME_NOW (0ull)
#define NSEC_PER_SEC 1000000000ull
enum : unsigned { QOS_CLASS_USER_INITIATED = 0x19 };
extern "C" {
dispatch_queue_t dispatch_get_global_queue(intptr_t identifier, uintptr_t flags);
void dispatch_async(dispatch_queue_t queue, void (^block)(void));
dispatch_time_t dispatch_time(dispatch_time_t when, int64_t nanoseconds);
dispatch_semaphore_t dispatch_semaphore_create(intptr_t value);
intptr_t dispatch_semaphore_wait(dispatch_semaphore_t semaphore, dispatch_time_t timeout);
intptr_t dispatch_semaphore_signal(dispatch_semaphore_t semaphore);
}
