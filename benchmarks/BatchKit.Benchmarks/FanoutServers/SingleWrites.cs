using System.Buffers.Binary;
using System.Diagnostics;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Writes to single clients in turn, each message with the time at which it was written, and to small groups beside them.</summary>
internal sealed class SingleWrites(IOutputBuffer output, OutputHandle[] singles, int smallGroups)
{
    private readonly byte[] _message = new byte[Payload.Bytes];

    public void Run(TimeSpan duration)
    {
        var began = Stopwatch.GetTimestamp();
        for (var number = 0; Stopwatch.GetElapsedTime(began) < duration; number++)
        {
            if (smallGroups > 0)
                output.Write(OutputHandle.Named(FanoutCrowd.SmallGroup(number % smallGroups)), Payload.Encoded);
            BinaryPrimitives.WriteInt64LittleEndian(_message, Stopwatch.GetTimestamp());
            output.Write(singles[number % singles.Length], _message);
            Thread.Sleep(1);
        }
    }
}
