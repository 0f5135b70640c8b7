using System.Globalization;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Connections;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.Tcp;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>Latest values that wait for clients that do not read.</summary>
public sealed class LatestValueTests
{
    public static TheoryData<string> Formats => ["raw", "WebSocket", "telnet", "raw, behind a broker"];

    public static TheoryData<int> Seeds => [.. Enumerable.Range(1, 20)];

    [Theory]
    [MemberData(nameof(Formats))]
    public async Task A_client_that_does_not_read_gets_the_newest_of_each_key_and_no_backlog(string format)
    {
        await using var scene = new LatestScene(FormatOf(format), isBehindBroker: format.EndsWith("broker", StringComparison.Ordinal));
        var (slow, other) = (scene.Stuck(), scene.Client());
        await scene.WriteAsync(slow, 0, "first");
        var held = 0;

        for (var round = 0; round < 500; round++)
        {
            for (var key = 0; key < 10; key++)
                await scene.WriteAsync(slow, key, $"{key}: {(round * 7919) % 1000}");
            held = round == 10 ? slow.Connection.Output.HeldBytes : held;
        }

        // An array of twice the size at most, when values become longer.
        Assert.InRange(slow.Connection.Output.HeldBytes, 1, 2 * held);
        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Connection.Output.HeldBytes == 0);

        // The first one is under way.
        await scene.WriteAsync(other, 0, "first");
        for (var key = 0; key < 10; key++)
            await scene.WriteAsync(other, key, $"{key}: {499 * 7919 % 1000}");
        Assert.Equal(other.Text, slow.Text);
        var counted = scene.Transport.GetStatistics();
        Assert.Equal(499 * 10, counted.SupersededMessages);
        counted.AssertAddsUp();
    }

    [Fact]
    public async Task A_newer_value_takes_the_place_of_the_older_one_between_other_messages()
    {
        await using var scene = new LatestScene(WireFormat.Raw);
        var slow = scene.Stuck();
        await scene.WriteAsync(slow, 0, "[0]");

        await scene.WriteAsync(slow, 1, "[1 old]");
        await scene.Output.WriteAsync(slow.Handle, "plain ");
        await using (scene.Output.BeginBufferingScope(slow.Handle))
        {
            scene.Output.Write(slow.Handle, "before ");
            scene.Output.WriteLatest(slow.Handle, 1, "[1]");
            scene.Output.Write(slow.Handle, "between ");
            scene.Output.WriteLatest(slow.Handle, 2, "[2]");
            scene.Output.Write(slow.Handle, "behind");
        }

        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Connection.Output.HeldBytes == 0);
        Assert.Equal("[0][1]plain before between [2]behind", slow.Text);
        scene.Transport.GetStatistics().AssertAddsUp();
    }

    [Fact]
    public async Task Members_of_a_group_that_read_get_each_value_and_those_that_do_not_only_the_newest()
    {
        await using var scene = new LatestScene(WireFormat.Raw);
        var (reading, stuck, late) = (scene.Client().Join("hall"), scene.Stuck().Join("hall"), scene.Stuck().Join("hall"));
        var hall = OutputHandle.Named("hall");
        await scene.Output.WriteAsync(hall, "begin ");

        for (var number = 0; number < 100; number++)
        {
            await scene.WriteAsync(hall, 1, $"<{number}>");
            // The same key of another handle is another value.
            await scene.WriteAsync(late, 1, $"({number})");
        }

        stuck.Wire.Open();
        late.Wire.Open();
        await Until.TrueAsync(() => stuck.Connection.Output.HeldBytes + late.Connection.Output.HeldBytes == 0);
        Assert.Equal("begin " + string.Concat(Enumerable.Range(0, 100).Select(static number => $"<{number}>")), reading.Text);
        Assert.Equal("begin <99>", stuck.Text);
        Assert.Equal("begin <99>(99)", late.Text);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_value_stays_behind_the_leave_and_the_join_that_it_was_written_after(bool isOneSend)
    {
        await using var scene = new LatestScene(WireFormat.Raw);
        var (stuck, hall) = (scene.Stuck().Join("hall", "street"), OutputHandle.Named("hall"));
        await scene.WriteAsync(stuck, 0, "[0]");
        await scene.WriteAsync(hall, 1, "<0>");
        await scene.WriteAsync(OutputHandle.Named("street"), 1, "(0)");

        var scope = isOneSend ? scene.Output.BeginBufferingScope() : default;
        await Settle(() => scene.Output.WriteLatest(hall, 1, "<1>"));
        await Settle(() => scene.Output.Write(stuck.Handle, ControlMessage.LeaveGroup("hall")));
        await Settle(() => scene.Output.Write(stuck.Handle, "left, joined"));
        await Settle(() => scene.Output.Write(stuck.Handle, ControlMessage.JoinGroup("hall")));
        await Settle(() => scene.Output.WriteLatest(hall, 1, "<2>"));
        await Settle(() => scene.Output.WriteLatest(OutputHandle.Named("street"), 1, "(1)"));
        scope.Dispose();
        await scene.WriteAsync(hall, 1, "<3>");

        stuck.Wire.Open();
        await Until.TrueAsync(() => stuck.Connection.Output.HeldBytes == 0);
        Assert.Equal("[0]<1>(1)left, joined<3>", stuck.Text);
        scene.Transport.GetStatistics().AssertAddsUp();

        async Task Settle(Action write)
        {
            write();
            if (!isOneSend)
                await scene.Output.FlushAsync().WithinDeadline();
        }
    }

    [Fact]
    public async Task A_value_that_is_under_way_is_not_replaced()
    {
        await using var scene = new LatestScene(WireFormat.Raw);
        var client = scene.Client();
        client.Wire.Limit(3);

        await scene.WriteAsync(client, 1, "<first>");
        await scene.WriteAsync(client, 1, "<second>");
        await scene.WriteAsync(client, 1, "<third>");

        client.Wire.Open();
        await Until.TrueAsync(() => client.Connection.Output.HeldBytes == 0);
        Assert.Equal("<first><third>", client.Text);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(10)]
    [InlineData(1000)]
    public async Task Values_without_room_follow_the_clients_policy(int valuesOfScope)
    {
        await using var scene = new LatestScene(WireFormat.Raw, new BroadcastOptions { MaxQueuedBytes = 4096, SlowConsumer = SlowConsumerPolicy.DropNewest });
        var slow = scene.Stuck();

        for (var first = 0; first < 1000; first += valuesOfScope)
        {
            await using var scope = scene.Output.BeginBufferingScope(slow.Handle);
            for (var key = first; key < first + valuesOfScope; key++)
                scene.Output.WriteLatest(slow.Handle, key, "value");
        }

        Assert.InRange(slow.Connection.Output.HeldBytes, 0, 4096);
        var counted = scene.Transport.GetStatistics();
        Assert.InRange(counted.DroppedNewestMessages, 1, 1000);
        counted.AssertAddsUp();
    }

    [Theory]
    [MemberData(nameof(Seeds))]
    public async Task Whatever_is_replaced_plain_messages_stay_in_order_and_the_last_of_each_key_is_its_newest(int seed)
    {
        var random = new Random(seed);
        await using var scene = new LatestScene(WireFormat.Raw);
        var clients = new[] { scene.Client().Join("hall"), scene.Client().Join("hall") };
        var hall = OutputHandle.Named("hall");
        var (plain, newest) = (new List<string>(), new Dictionary<long, string>());
        for (var step = 0; step < 300; step++)
        {
            foreach (var client in clients.Where(_ => random.Next(4) == 0))
                client.Wire.Allow(random.Next(3) * random.Next(200));
            await using var scope = scene.Output.BeginBufferingScope(hall);
            for (var message = random.Next(5); message >= 0; message--)
            {
                if (random.Next(10) == 0)
                    scene.Output.Write(hall, "");
                var text = $"{step}.{message}{new string('.', random.Next(30))}";
                if (random.Next(2) == 0)
                {
                    plain.Add(text);
                    scene.Output.Write(hall, $"<{text}>");
                    continue;
                }

                var key = random.Next(6);
                newest[key] = text;
                scene.Output.WriteLatest(hall, key, $"<{key}={text}>");
            }
        }

        foreach (var client in clients)
        {
            var texts = await TextsAsync(client);
            Assert.Equal(plain, texts.Where(static text => !text.Contains('=')).Select(static text => text[1..]));
            Assert.Equal(newest.OrderBy(static pair => pair.Key).Select(static pair => $"<{pair.Key}={pair.Value}"), texts.Where(static text => text.Contains('=')).GroupBy(static text => text[1]).OrderBy(static group => group.Key).Select(static group => group.Last()));
        }

        var counted = scene.Transport.GetStatistics();
        Assert.Equal(0, counted.DroppedSlowConsumerMessages);
        counted.AssertAddsUp();
    }

    [Fact]
    public async Task Long_values_of_many_keys_take_no_more_memory_than_the_client_may()
    {
        await using var scene = new LatestScene(WireFormat.Raw, new BroadcastOptions { MaxQueuedBytes = 65_536, SlowConsumer = SlowConsumerPolicy.DropNewest });
        var slow = scene.Stuck();
        var value = new string('.', 2048);

        for (var key = 0; key < 100; key++)
        {
            await scene.WriteAsync(slow, key, value);
            Assert.InRange(slow.Connection.Output.HeldBytes, 0, 65_536);
        }

        scene.Transport.GetStatistics().AssertAddsUp();
    }

    [Theory]
    [InlineData(16)]
    [InlineData(200)]
    [InlineData(500)]
    [InlineData(1000)]
    [InlineData(2000)]
    [InlineData(8000)]
    public async Task A_queue_of_latest_values_takes_little_more_memory_than_the_same_messages_alone(int bytes)
    {
        const int keys = 100;
        await using var scene = new LatestScene(WireFormat.Raw);
        var slow = scene.Stuck();
        await scene.WriteAsync(slow, -1, "first");
        var most = 0;

        for (var update = 0; update < 20 * keys; update++)
        {
            await scene.WriteAsync(slow, update % keys, new string((char)('a' + (update % 26)), bytes));
            if (update % keys == keys / 2)
                slow.Wire.Allow(Math.Max(LatestOutput.MaxWriteBytes, bytes));
            most = Math.Max(most, slow.Connection.Output.HeldBytes);
        }

        Assert.InRange(most, 1, 1.1 * keys * QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(bytes)));
        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Connection.Output.HeldBytes == 0);
        scene.Transport.GetStatistics().AssertAddsUp();
    }

    [Theory]
    [InlineData(0)]
    [InlineData(3)]
    public async Task Of_a_long_run_no_more_than_one_write_can_not_be_replaced(int plain)
    {
        await using var scene = new LatestScene(WireFormat.Raw);
        var slow = scene.Stuck();
        await scene.Output.WriteAsync(slow.Handle, "begin ");
        await scene.Output.FlushAsync(slow.Handle);

        for (var round = 0; round < 3; round++)
        {
            await using var scope = scene.Output.BeginBufferingScope(slow.Handle);
            for (var key = 0; key < 100; key++)
            {
                for (var line = 0; line < plain; line++)
                    scene.Output.Write(slow.Handle, $"{line} of {key} in {round};");
                scene.Output.WriteLatest(slow.Handle, key, $"{round}{new string('.', 199)};");
            }

            if (round > 0)
                continue;
            // The first write of values begins: their keys are forgotten.
            scope.Dispose();
            var held = slow.Connection.Output.HeldBytes;
            slow.Wire.Allow("begin ".Length);
            await Until.TrueAsync(() => slow.Connection.Output.HeldBytes < held - 1000);
        }

        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Connection.Output.HeldBytes == 0);
        var lines = slow.Text["begin ".Length..].Split(';', StringSplitOptions.RemoveEmptyEntries);
        Assert.InRange(lines.Count(static line => line.EndsWith('.') && line[0] == '0'), 0, 4096 / 200);
        Assert.Equal(0, lines.Count(static line => line.EndsWith('.') && line[0] == '1'));
        Assert.Equal(100, lines.Count(static line => line.EndsWith('.') && line[0] == '2'));
        Assert.Equal(Enumerable.Range(0, 300 * plain).Select(number => $"{number % plain} of {number / plain % 100} in {number / plain / 100}"), lines.Where(static line => !line.EndsWith('.')));
        scene.Transport.GetStatistics().AssertAddsUp();
    }

    [Fact]
    public async Task A_client_that_reads_slowly_over_a_real_socket_gets_values_of_one_round_of_the_keys()
    {
        const int keys = 100;
        const int updates = 10_000;
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { SendBufferBytes = 4096 });
        using var client = await LineClient.ConnectAsync(server.EndPoint, isSmall: true);
        var handle = (await server.NextHandlerAsync()).Connection.Handle;
        var padding = new string('.', 900);
        var (mostInQueue, mostInBuffer) = (0L, 0L);

        for (var update = 0; update < updates; update++)
        {
            server.Output.WriteLatest(handle, update % keys, $"{update % keys} {update} {padding}\n");
            await server.Output.FlushAsync(handle).WithinDeadline();
            mostInBuffer = Math.Max(mostInBuffer, server.Output.GetStatistics().PendingMessages);
            mostInQueue = Math.Max(mostInQueue, server.Transport.GetStatistics().PendingMessages);
        }

        var newest = new Dictionary<string, int>(StringComparer.Ordinal);
        var lines = 0;
        for (; newest.Count < keys || newest.Values.Min() < updates - keys; lines++)
        {
            var parts = (await client.ReadLineAsync())!.Split(' ');
            var number = int.Parse(parts[1], CultureInfo.InvariantCulture);
            Assert.True(number >= newest.GetValueOrDefault(parts[0]), $"{parts[0]}: {number} behind {newest.GetValueOrDefault(parts[0])}");
            newest[parts[0]] = number;
        }

        // One value of each key waits, beside one write under way; the system's buffers have the rest.
        Assert.Equal(0, mostInBuffer);
        Assert.InRange(mostInQueue, keys, keys + (4096 / 900));
        Assert.InRange(lines, keys, 2 * keys);
    }

    private static async Task<string[]> TextsAsync(FakeClient client)
    {
        client.Wire.Open();
        await Until.TrueAsync(() => client.Connection.Output.HeldBytes == 0);
        var texts = client.Text.Split('>', StringSplitOptions.RemoveEmptyEntries);
        Assert.All(texts, static text => Assert.Equal('<', text[0]));
        return texts;
    }

    private static WireFormat FormatOf(string name) => name switch
    {
        "WebSocket" => WireFormat.WebSocketText,
        "telnet" => WireFormat.Telnet(TelnetCharset.Utf8, PromptEnding.GoAhead, takesGmcp: false),
        _ => WireFormat.Raw,
    };
}
