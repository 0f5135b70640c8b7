namespace BatchKit.Tests.Buffering;

/// <summary>Tests that measure the heap run alone.</summary>
[CollectionDefinition(nameof(MeasuresMemory), DisableParallelization = true)]
public sealed class MeasuresMemory;
