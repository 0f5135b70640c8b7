namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Numbered streams of messages for groups. Each has one writer; the last ones share one group, where everybody is.</summary>
internal sealed class MessageStreams
{
    public const int Groups = 200;
    public const int Writers = 4;

    private readonly long[] _assigned = new long[Groups + Writers];
    private readonly long[] _written = new long[Groups + Writers];

    /// <summary>The group of every client, in which each writer has a stream of its own.</summary>
    public static OutputHandle Everybody { get; } = OutputHandle.Named("everybody");

    public static IEnumerable<int> ForEverybody => Enumerable.Range(Groups, Writers);

    public long Total => Enumerable.Range(0, Groups + Writers).Sum(Assigned);

    public static string GroupOf(int stream) => stream < Groups ? $"group {stream}" : Everybody.Name!;

    /// <summary>The last number that was given out: later ones are written later.</summary>
    public long Assigned(int stream) => Volatile.Read(ref _assigned[stream]);

    /// <summary>The last number whose scope is closed: it and those before are on their way.</summary>
    public long Written(int stream) => Volatile.Read(ref _written[stream]);

    public void Write(IOutputBuffer output, OutputHandle group, int stream)
    {
        var number = Interlocked.Increment(ref _assigned[stream]);
        output.Write(group, $"m {stream} {number}\n");
    }

    public void Close(int stream) => Volatile.Write(ref _written[stream], Volatile.Read(ref _assigned[stream]));
}
