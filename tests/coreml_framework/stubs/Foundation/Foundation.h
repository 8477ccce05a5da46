// What framework.mm uses of Foundation, declared as Apple's documents have it: for checking its syntax and types where
// there is no SDK. Nothing is defined.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef long NSInteger;
typedef unsigned long NSUInteger;
#define API_AVAILABLE(...)
#define nil nullptr
#define NS_ENUM(type, name) \
  enum name : type name;    \
  enum name : type

typedef struct {
  unsigned long state;
  id __unsafe_unretained* itemsPtr;
  unsigned long* mutationsPtr;
  unsigned long extra[5];
} NSFastEnumerationState;

@protocol NSObject
- (bool)isKindOfClass:(Class)aClass;
@end
__attribute__((objc_root_class))
@interface NSObject<NSObject>
+ (instancetype)alloc;
- (instancetype)init;
+ (Class)class;
@end

@protocol NSCopying
@end
@protocol NSFastEnumeration
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)count;
@end

@interface NSString : NSObject <NSCopying>
+ (instancetype)stringWithUTF8String:(const char*)text;
- (const char*)UTF8String;
@end
@interface NSConstantString : NSString
@end
@interface NSNumber : NSObject
+ (NSNumber*)numberWithLongLong:(long long)value;
- (long long)longLongValue;
@end
@interface NSError : NSObject
- (NSString*)localizedDescription;
@end
@interface NSURL : NSObject
+ (NSURL*)fileURLWithPath:(NSString*)path;
- (NSString*)path;
@end
@interface NSProcessInfo : NSObject
+ (NSProcessInfo*)processInfo;
- (NSString*)operatingSystemVersionString;
@end

@interface NSArray<__covariant T> : NSObject <NSFastEnumeration>
- (NSUInteger)count;
- (T)firstObject;
@end
@interface NSMutableArray<T> : NSArray <T>
+ (instancetype)arrayWithCapacity:(NSUInteger)count;
- (void)addObject:(T)object;
@end
@interface NSSet<__covariant T> : NSObject <NSFastEnumeration>
@end
@interface NSDictionary<__covariant K, __covariant V> : NSObject
- (V)objectForKey:(K)key;
@end
@interface NSMutableDictionary<K, V> : NSDictionary <K, V>
+ (instancetype)dictionary;
- (void)setObject:(V)object forKey:(K)key;
@end
