using System.Globalization;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>Latest values that wait in a queue that is full, or nearly so.</summary>
public sealed class FullLatestValueTests
{
    private static readonly BroadcastOptions Narrow = new() { MaxQueuedBytes = 4096, SlowConsumer = SlowConsumerPolicy.DropOldest };

    public static TheoryData<int> Seeds => [.. Enumerable.Range(1, 20)];

    [Fact]
    public async Task A_value_without_memory_to_remember_it_is_not_overtaken_by_a_newer_one()
    {
        await using var scene = new LatestScene(WireFormat.Raw, Narrow);
        var slow = scene.Stuck();
        await scene.WritePlainAsync(slow, "first");
        await scene.WritePlainAsync(slow, new string('.', 100));
        await scene.WriteAsync(slow, 1, "<1.......>");
        foreach (var bytes in new[] { 1000, 1000, 500 })
            await scene.WritePlainAsync(slow, new string('.', bytes));

        await scene.WriteAsync(slow, 1, $"<2{new string('-', 247)}>");
        await scene.WriteAsync(slow, 1, "<3.....>");

        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Connection.Output.HeldBytes == 0);
        Assert.EndsWith(">", slow.Text, StringComparison.Ordinal);
        Assert.Equal('3', slow.Text[slow.Text.LastIndexOf('<') + 1]);
        scene.Transport.GetStatistics().AssertAddsUp();
    }

    [Theory]
    [InlineData(0)]
    [InlineData(100)]
    public async Task An_empty_message_behind_a_long_value_is_counted(int taken)
    {
        await using var scene = new LatestScene(WireFormat.Raw);
        var slow = scene.Stuck();
        slow.Wire.Limit(taken);
        await using (scene.Output.BeginBufferingScope(slow.Handle))
        {
            scene.Output.WriteLatest(slow.Handle, 1, new string('.', 5000));
            scene.Output.Write(slow.Handle, "");
        }

        await scene.Output.FlushAsync(slow.Handle).WithinDeadline();
        scene.Transport.GetStatistics().AssertAddsUp();
        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Connection.Output.HeldBytes == 0);

        Assert.Equal(2, scene.Transport.GetStatistics().SentMessages);
    }

    [Theory]
    [MemberData(nameof(Seeds))]
    public async Task Whatever_is_dropped_no_message_overtakes_an_older_one_of_its_kind(int seed)
    {
        var random = new Random(seed);
        await using var scene = new LatestScene(WireFormat.Raw, Narrow);
        var client = scene.Client();
        var number = 0;
        for (var step = 0; step < 1000; step++)
        {
            if (random.Next(8) == 0)
                client.Wire.Allow(random.Next(3) * random.Next(1000));
            using var scope = scene.Output.BeginBufferingScope(client.Handle);
            for (var message = random.Next(4); message >= 0; message--)
            {
                if (random.Next(10) == 0)
                    scene.Output.Write(client.Handle, "");
                var (text, key) = ($"{++number}{new string('.', random.Next(20) * random.Next(20))}>", random.Next(6));
                if (key < 3)
                    scene.Output.WriteLatest(client.Handle, key, $"{key}={text}");
                else
                    scene.Output.Write(client.Handle, $"plain={text}");
            }
        }

        await scene.Output.FlushAsync(client.Handle).WithinDeadline();
        client.Wire.Open();
        await Until.TrueAsync(() => client.Connection.Output.HeldBytes == 0);

        var kinds = client.Text.Split('>', StringSplitOptions.RemoveEmptyEntries).Select(static text => text.Split('=')).GroupBy(static parts => parts[0], static parts => int.Parse(parts[1].TrimEnd('.'), CultureInfo.InvariantCulture));
        Assert.All(kinds, static kind => Assert.Equal(kind.Order(), kind));
        scene.Transport.GetStatistics().AssertAddsUp();
    }
}
