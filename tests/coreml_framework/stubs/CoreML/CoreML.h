// What framework.mm uses of Core ML, declared as Apple's documents have it (developer.apple.com/documentation/coreml).
#pragma once

#import <Foundation/Foundation.h>

typedef NS_ENUM(NSInteger, MLComputeUnits) {
  MLComputeUnitsCPUOnly = 0,
  MLComputeUnitsCPUAndGPU = 1,
  MLComputeUnitsAll = 2,
  MLComputeUnitsCPUAndNeuralEngine = 3,
};
typedef NS_ENUM(NSInteger, MLMultiArrayDataType) {
  MLMultiArrayDataTypeDouble = 0x10000 | 64,
  MLMultiArrayDataTypeFloat32 = 0x10000 | 32,
  MLMultiArrayDataTypeFloat16 = 0x10000 | 16,
  MLMultiArrayDataTypeInt32 = 0x20000 | 32,
};

@interface MLMultiArray : NSObject
- (instancetype)initWithShape:(NSArray<NSNumber*>*)shape
                     dataType:(MLMultiArrayDataType)dataType
                        error:(NSError* __autoreleasing*)error;
- (MLMultiArrayDataType)dataType;
- (NSArray<NSNumber*>*)shape;
- (NSArray<NSNumber*>*)strides;
- (void)getBytesWithHandler:(void (^)(const void* bytes, NSInteger size))handler;
- (void)getMutableBytesWithHandler:(void (^)(void* bytes, NSInteger size, NSArray<NSNumber*>* strides))handler;
@end
@interface MLFeatureValue : NSObject
+ (instancetype)featureValueWithMultiArray:(MLMultiArray*)value;
- (MLMultiArray*)multiArrayValue;
@end
@protocol MLFeatureProvider <NSObject>
- (NSSet<NSString*>*)featureNames;
- (MLFeatureValue*)featureValueForName:(NSString*)name;
@end
@interface MLDictionaryFeatureProvider : NSObject <MLFeatureProvider>
- (instancetype)initWithDictionary:(NSDictionary<NSString*, id>*)dictionary error:(NSError* __autoreleasing*)error;
@end
@interface MLModelConfiguration : NSObject
- (void)setComputeUnits:(MLComputeUnits)units;
- (void)setFunctionName:(NSString*)name;
@end
@interface MLModel : NSObject
+ (NSURL*)compileModelAtURL:(NSURL*)url error:(NSError* __autoreleasing*)error;
+ (instancetype)modelWithContentsOfURL:(NSURL*)url
                         configuration:(MLModelConfiguration*)configuration
                                 error:(NSError* __autoreleasing*)error;
- (id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)input error:(NSError* __autoreleasing*)error;
- (void)predictionFromFeatures:(id<MLFeatureProvider>)input
             completionHandler:(void (^)(id<MLFeatureProvider> output, NSError* error))handler;
@end

@protocol MLComputeDeviceProtocol <NSObject>
@end
@interface MLCPUComputeDevice : NSObject <MLComputeDeviceProtocol>
@end
@interface MLGPUComputeDevice : NSObject <MLComputeDeviceProtocol>
@end
@interface MLNeuralEngineComputeDevice : NSObject <MLComputeDeviceProtocol>
@end
extern "C" NSArray<id<MLComputeDeviceProtocol>>* MLAllComputeDevices(void);

@interface MLModelStructureProgramNamedValueType : NSObject
- (NSString*)name;
@end
@class MLModelStructureProgramOperation;
@interface MLModelStructureProgramBlock : NSObject
- (NSArray<MLModelStructureProgramOperation*>*)operations;
@end
@interface MLModelStructureProgramOperation : NSObject
- (NSString*)operatorName;
- (NSArray<MLModelStructureProgramNamedValueType*>*)outputs;
- (NSArray<MLModelStructureProgramBlock*>*)blocks;
@end
@interface MLModelStructureProgramFunction : NSObject
- (MLModelStructureProgramBlock*)block;
@end
@interface MLModelStructureProgram : NSObject
- (NSDictionary<NSString*, MLModelStructureProgramFunction*>*)functions;
@end
@interface MLModelStructure : NSObject
- (MLModelStructureProgram*)program;
@end
@interface MLComputePlanCost : NSObject
- (double)weight;
@end
@interface MLComputePlanDeviceUsage : NSObject
- (id<MLComputeDeviceProtocol>)preferredComputeDevice;
- (NSArray<id<MLComputeDeviceProtocol>>*)supportedComputeDevices;
@end
@interface MLComputePlan : NSObject
+ (void)loadContentsOfURL:(NSURL*)url
            configuration:(MLModelConfiguration*)configuration
        completionHandler:(void (^)(MLComputePlan* plan, NSError* error))handler;
- (MLModelStructure*)modelStructure;
- (MLComputePlanDeviceUsage*)computeDeviceUsageForMLProgramOperation:(MLModelStructureProgramOperation*)operation;
- (MLComputePlanCost*)estimatedCostOfMLProgramOperation:(MLModelStructureProgramOperation*)operation;
@end
