using BatchKit.Benchmarks.FanoutServers;

namespace BatchKit.Benchmarks.Children;

/// <summary>The floor of a broadcast over io_uring, which containers often forbid.</summary>
internal static class RingProgram
{
    // As many as a range of the fan-out has.
    private const int SubmittedSends = 256;

    /// <summary>Why there is none here; null when there is one.</summary>
    public static string? WhyMissing { get; } = NativeProgram.WhyMissing ?? FindObstacle();

    public static ChildProcess Start() => ChildProcess.StartProgram(NativeProgram.Build("fanout"), $"{Payload.Bytes}", $"{SubmittedSends}");

    private static string? FindObstacle()
    {
        try
        {
            using var program = Start();
            program.Read();
            return null;
        }
        catch (InvalidOperationException failure)
        {
            return $"this system has no io_uring for it: {failure.Message.TrimEnd()}";
        }
    }
}
