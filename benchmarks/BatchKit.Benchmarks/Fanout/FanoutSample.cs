namespace BatchKit.Benchmarks.Fanout;

/// <summary>What one broadcast took, in milliseconds.</summary>
/// <param name="Call">Until the server's caller could go on.</param>
/// <param name="LastByte">Until the sink had read the last byte.</param>
internal readonly record struct FanoutSample(double Call, double LastByte);
