using System.Text;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class DroppedOutputTests(ITestOutputHelper output)
{
    [Theory]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    public async Task What_is_dropped_is_whole_messages_so_no_rune_no_colour_and_no_command_is_cut(SlowConsumerPolicy policy)
    {
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var random = new Random(seed);
        var options = new BroadcastOptions { MaxQueuedBytes = 4096, SlowConsumer = policy };
        await using var transport = new BroadcastTransport(options);
        var wire = new FitfulWire(new Random(random.Next()));
        var scene = new TelnetScene(limits: new(options.MaxQueuedBytes, options.MaxQueuedMessages, policy), wire: wire);
        transport.Connections.Add(scene.Connection);
        scene.Read("FF FD C9");
        var hold = new TaskCompletionSource();
        wire.HeldUntil = hold.Task;

        var number = 0;
        for (var send = 0; send < 300; send++)
        {
            // However fast the pool is, the queue was full once by then.
            if (send == 100)
                hold.SetResult();
            await transport.SendAsync(Deliveries.To(scene.Connection.Handle, [.. Enumerable.Range(0, random.Next(1, 80)).Select(_ => Message(number++))]));
        }

        scene.Connection.Close();
        await scene.Queue.Ended.WithinDeadline();

        var agreed = TelnetScene.Bytes("FF FB C9");
        Assert.Equal(agreed, wire.Written[..agreed.Length]);
        var numbers = Numbers(wire.Written.AsSpan(agreed.Length));
        Assert.Equal(numbers.Order(), numbers);
        Assert.Equal(numbers.Distinct().Count(), numbers.Count);
        Assert.InRange(numbers.Count, 1, number - 1);
    }

    /// <summary>A message of a kind that its number decides, and that says its number.</summary>
    private static BatchMessage Message(int number) => (number % 3) switch
    {
        0 => Some.Message($"\e[31m€🏮\e[0m {number}\r\n"),
        1 => new BatchMessage((byte[])[255, 255, .. Encoding.UTF8.GetBytes($" {number}\r\n")]),
        _ => Some.Message($"Number {number}", TelnetMessages.Gmcp),
    };

    /// <summary>Reads messages to the end; anything that is not one of them fails.</summary>
    private static List<int> Numbers(ReadOnlySpan<byte> wire)
    {
        var numbers = new List<int>();
        while (!wire.IsEmpty)
        {
            var (start, end) = wire[0] switch
            {
                0x1B => (Encoding.UTF8.GetBytes("\e[31m€🏮\e[0m "), "\r\n"u8.ToArray()),
                _ when wire[1] == 255 => ([255, 255, 255, 255, (byte)' '], "\r\n"u8.ToArray()),
                _ => ((byte[])[255, 250, 201, .. "Number "u8], (byte[])[255, 240]),
            };
            Assert.Equal(start, wire[..start.Length]);
            wire = wire[start.Length..];
            var length = wire.IndexOf(end);
            numbers.Add(int.Parse(wire[..length], System.Globalization.CultureInfo.InvariantCulture));
            wire = wire[(length + end.Length)..];
        }

        return numbers;
    }
}
