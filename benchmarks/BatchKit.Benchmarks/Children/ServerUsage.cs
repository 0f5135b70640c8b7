namespace BatchKit.Benchmarks.Children;

/// <summary>What a server has used since it started, without those that load it.</summary>
/// <param name="ProcessorNanoseconds">On all cores, in the kernel too.</param>
/// <param name="AllocatedBytes">Zero for a program in C, as all that follows.</param>
/// <param name="Gen0">Collections of generation 0 and older.</param>
/// <param name="Gen1">Collections of generation 1 and older.</param>
/// <param name="Gen2">Collections of generation 2.</param>
internal readonly record struct ServerUsage(double ProcessorNanoseconds, double AllocatedBytes, double Gen0, double Gen1, double Gen2)
{
    public static ServerUsage Ask(ChildProcess server) => server.Ask("usage") is [var processor, .. var rest]
        ? rest is [var allocated, var gen0, var gen1, var gen2]
            ? new ServerUsage(processor, allocated, gen0, gen1, gen2)
            : new ServerUsage(processor, 0, 0, 0, 0)
        : throw new InvalidOperationException("A server told nothing of its usage.");

    /// <summary>Tells this process's own.</summary>
    public static void Reply(ControlPipe pipe) => pipe.Reply(
        (long)Environment.CpuUsage.TotalTime.TotalNanoseconds, GC.GetTotalAllocatedBytes(precise: true),
        GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2));

    public static ServerUsage operator +(ServerUsage one, ServerUsage other) => new(
        one.ProcessorNanoseconds + other.ProcessorNanoseconds, one.AllocatedBytes + other.AllocatedBytes,
        one.Gen0 + other.Gen0, one.Gen1 + other.Gen1, one.Gen2 + other.Gen2);

    public static ServerUsage operator -(ServerUsage end, ServerUsage start) => new(
        end.ProcessorNanoseconds - start.ProcessorNanoseconds, end.AllocatedBytes - start.AllocatedBytes,
        end.Gen0 - start.Gen0, end.Gen1 - start.Gen1, end.Gen2 - start.Gen2);
}
