using System.Collections.Concurrent;
using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using System.Net.WebSockets;
using System.Text;
using System.Threading.Channels;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Transport;

public sealed class AttachTests : IAsyncDisposable
{
    private const string Lobby = "lobby";

    private readonly BroadcastTransport _transport = new(new BroadcastOptions { MaxQueuedBytes = 256 * 1024 });
    private readonly OutputBuffer _output;
    private readonly AttachSamples _samples;

    public AttachTests()
    {
        _output = new OutputBuffer(_transport);
        _samples = new AttachSamples(_transport, _output);
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
    }

    [Theory]
    [InlineData(SlowConsumerPolicy.Disconnect)]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    public async Task One_pipe_that_no_one_reads_delays_none_of_nineteen_others(SlowConsumerPolicy policy)
    {
        const int pipes = 20, rounds = 20, broadcasts = 100;
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = 256 * 1024, SlowConsumer = policy });
        var readers = Enumerable.Range(0, pipes).Select(_ => new Pipe()).ToArray();
        var clients = Array.ConvertAll(readers, pipe => transport.Attach(pipe.Writer));
        foreach (var client in clients)
            transport.Groups.Join(client.Connection, Lobby);
        var message = new BatchMessage(Some.RandomBytes(1024));

        for (var round = 0; round < rounds; round++)
        {
            for (var broadcast = 0; broadcast < broadcasts; broadcast++)
                await transport.SendAsync(Deliveries.ToGroup(Lobby, message));
            foreach (var pipe in readers.Skip(1))
                pipe.Reader.AdvanceTo((await pipe.Reader.ReadAtLeastAsync(broadcasts * 1024).AsTask().WithinDeadline()).Buffer.End);
        }

        var counted = await transport.WhenItAddsUpAsync(counted => counted.SentMessages >= (pipes - 1) * rounds * broadcasts);
        Assert.Equal(policy == SlowConsumerPolicy.Disconnect, clients[0].Ending.IsCancellationRequested);
        Assert.InRange(clients[0].Connection.Output.HeldBytes, 0, 256 * 1024);
        Assert.Equal(policy == SlowConsumerPolicy.Disconnect ? 19 : 20, counted.Connections);
        Assert.All(clients.Skip(1), client => Assert.False(client.Ending.IsCancellationRequested));
    }

    [Fact]
    public async Task A_pipe_whose_reader_blocks_the_thread_of_the_write_delays_no_other_client()
    {
        using var released = new ManualResetEventSlim();
        var (blocked, other) = (new Pipe(new PipeOptions(readerScheduler: PipeScheduler.Inline, useSynchronizationContext: false)), new Pipe());
        foreach (var pipe in new[] { blocked, other })
            _transport.Groups.Join(_transport.Attach(pipe.Writer).Connection, Lobby);
        var reading = BlockAsync(blocked.Reader, released);

        var sending = Task.Run(async () => await _transport.SendAsync(Deliveries.ToGroup(Lobby, "hello")));
        await sending.WithinDeadline();

        var read = await other.Reader.ReadAsync().AsTask().WithinDeadline();
        Assert.Equal("hello", Encoding.UTF8.GetString(read.Buffer));
        released.Set();
        await reading.WithinDeadline();

        static async Task BlockAsync(PipeReader reader, ManualResetEventSlim released)
        {
            await reader.ReadAsync();
            released.Wait(Deadline.Time);
        }
    }

    [Fact]
    public async Task A_stream_gets_its_groups_output_until_its_client_leaves()
    {
        var (client, server) = await ConnectAsync();
        var serving = _samples.ServeStreamAsync(server);

        await client.WriteAsync("hello\n"u8.ToArray());
        var echo = await ReadAsync(client, "hello\r\n".Length);
        client.Dispose();
        await serving.WithinDeadline();

        Assert.Equal("hello\r\n", echo);
        Assert.Equal((0, 0), (_transport.Connections.Count, _transport.Connections.Places));
        Assert.Empty(_transport.GetMembers(Lobby));
        Assert.True(server.CanRead);
    }

    [Fact]
    public async Task A_pipe_gets_its_groups_output_until_its_client_leaves()
    {
        var (toServer, toClient) = (new Pipe(), new Pipe());
        var serving = _samples.ServePipeAsync(new Duplex(toServer.Reader, toClient.Writer));

        await toServer.Writer.WriteAsync("hello"u8.ToArray());
        var read = await toClient.Reader.ReadAtLeastAsync(5).AsTask().WithinDeadline();
        await toServer.Writer.CompleteAsync();
        await serving.WithinDeadline();

        Assert.Equal("hello", Encoding.UTF8.GetString(read.Buffer));
        Assert.Equal(0, _transport.Connections.Count);
    }

    [Fact]
    public async Task A_web_socket_gets_each_message_as_one_and_the_close_frame()
    {
        var (clientStream, serverStream) = await ConnectAsync();
        using var server = WebSocket.CreateFromStream(serverStream, new WebSocketCreationOptions { IsServer = true });
        using var client = WebSocket.CreateFromStream(clientStream, new WebSocketCreationOptions());
        var serving = _samples.ServeWebSocketAsync(server);
        var buffer = new byte[1024];

        await client.SendAsync("hello"u8.ToArray(), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None);
        var echo = await client.ReceiveAsync(buffer, CancellationToken.None).WithinDeadline();
        _output.Write(Assert.Single(_transport.GetMembers(Lobby)).Handle, ControlMessage.Close);
        var close = await client.ReceiveAsync(buffer.AsMemory(512), CancellationToken.None).AsTask().WithinDeadline();
        await client.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, null, CancellationToken.None);
        await serving.WithinDeadline();

        Assert.Equal(("hello", WebSocketMessageType.Text, true), (Encoding.UTF8.GetString(buffer, 0, echo.Count), echo.MessageType, echo.EndOfMessage));
        Assert.Equal((WebSocketMessageType.Close, WebSocketCloseStatus.NormalClosure), (close.MessageType, client.CloseStatus));
    }

    [Theory]
    [InlineData(65_500)]
    [InlineData(65_530)]
    [InlineData(65_531)]
    [InlineData(65_532)]
    [InlineData(65_533)]
    [InlineData(65_540)]
    public async Task A_web_socket_gets_each_message_as_one_when_a_longer_value_replaces_one_before_others(int bytes)
    {
        using var socket = new HeldSocket();
        await using var client = _transport.Attach(socket);
        _output.Write(client.Handle, "begin");
        await _output.FlushAsync(client.Handle).WithinDeadline();
        await using (_output.BeginBufferingScope(client.Handle))
        {
            _output.WriteLatest(client.Handle, 1, "old");
            _output.Write(client.Handle, "tail");
        }

        var value = new string('x', bytes);
        _output.WriteLatest(client.Handle, 1, value);
        await _output.FlushAsync(client.Handle).WithinDeadline();
        socket.Release();
        await Until.TrueAsync(() => client.Connection.Output.HeldBytes == 0);

        Assert.Equal(["begin", "tail", value], socket.Texts.Except(["old"]).Order(StringComparer.Ordinal));
        Assert.False(client.Ending.IsCancellationRequested);
    }

    [Fact]
    public async Task A_connection_of_kestrel_gets_its_groups_output_and_tells_its_address()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.Services.AddSingleton(_transport).AddSingleton<IOutputBuffer>(_output);
        builder.WebHost.ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, 0, listen => listen.UseConnectionHandler<AttachSamples.LobbyConnections>()));
        await using var application = builder.Build();
        await application.StartAsync().WithinDeadline();
        using var client = new TcpClient();
        await client.ConnectAsync(IPEndPoint.Parse(new Uri(application.Urls.Single()).Authority)).WithinDeadline();

        await client.GetStream().WriteAsync("hello"u8.ToArray());
        var echo = await ReadAsync(client.GetStream(), 5);
        var member = Assert.Single(_transport.GetMembers(Lobby));
        _output.Write(member.Handle, ControlMessage.Close);
        var end = await client.GetStream().ReadAsync(new byte[1]).AsTask().WithinDeadline();

        Assert.Equal(("hello", 0), (echo, end));
        Assert.Equal(((IPEndPoint)client.Client.LocalEndPoint!).Port, member.RemoteEndPoint?.Port);
    }

    [Fact]
    public async Task A_delegate_gets_its_groups_output_one_call_at_a_time()
    {
        var (sent, texts) = (new ConcurrentQueue<string>(), Channel.CreateUnbounded<string>());
        var calls = 0;
        var serving = _samples.ServeDelegateAsync(
            async (text, _) =>
            {
                Assert.Equal(1, Interlocked.Increment(ref calls));
                await Task.Yield();
                sent.Enqueue(text);
                Interlocked.Decrement(ref calls);
            },
            texts.Reader.ReadAllAsync());

        var expected = string.Concat(Enumerable.Range(0, 100).Select(number => $"{number} "));

        for (var number = 0; number < 100; number++)
            texts.Writer.TryWrite($"{number} ");
        await Until.TrueAsync(() => string.Concat(sent) == expected);
        texts.Writer.Complete();
        await serving.WithinDeadline();

        Assert.Equal(0, _transport.Connections.Count);
    }

    [Fact]
    public async Task A_write_that_hangs_is_cancelled_when_its_client_is_disconnected()
    {
        await using var client = _transport.Attach(async (_, cancellationToken) => await Task.Delay(Timeout.Infinite, cancellationToken));
        await _transport.SendAsync(Deliveries.To(client.Handle, "never written"));

        client.Connection.Abort();

        Assert.Equal(DisconnectReason.Aborted, await client.Ended.WithinDeadline());
        Assert.True(client.Ending.IsCancellationRequested);
        Assert.Equal(1, (await _transport.WhenItAddsUpAsync()).DroppedClosedMessages);
    }

    [Fact]
    public async Task A_write_that_throws_ends_its_connection_alone()
    {
        var other = new FakeClient(_transport).Join(Lobby);
        await using var client = _transport.Attach((_, _) => throw new IOException("broken"));
        _transport.Groups.Join(client.Connection, Lobby);

        await _transport.SendAsync(Deliveries.ToGroup(Lobby, "line"));

        Assert.Equal(DisconnectReason.ConnectionLost, await client.Ended.WithinDeadline());
        Assert.Equal("line", other.Text);
        Assert.Equal(1, (await _transport.WhenItAddsUpAsync()).FailedMessages);
    }

    [Fact]
    public async Task Queued_output_is_written_before_a_connection_that_is_disposed_ends()
    {
        var (written, gate) = (new List<string>(), new TaskCompletionSource());
        var client = _transport.Attach(async (bytes, _) =>
        {
            await gate.Task;
            written.Add(Encoding.UTF8.GetString(bytes.Span));
        });
        await _transport.SendAsync(Deliveries.To(client.Handle, "one "));
        await _transport.SendAsync(Deliveries.To(client.Handle, "two"));

        var disposing = client.DisposeAsync().AsTask();
        var wasEnding = client.Ending.IsCancellationRequested;
        gate.SetResult();
        await disposing.WithinDeadline();

        Assert.False(wasEnding);
        Assert.Equal("one two", string.Concat(written));
        Assert.True(client.Ending.IsCancellationRequested);
        Assert.Equal(DisconnectReason.ClientClosed, await client.Ended);
    }

    [Fact]
    public async Task A_write_may_dispose_of_its_connection()
    {
        var clock = new ManualTimeProvider();
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxConnections = 1 }, timeProvider: clock);
        AttachedConnection? client = null;
        client = transport.Attach(async (_, _) =>
        {
            await client!.DisposeAsync();
            throw new IOException("It is gone.");
        });

        await transport.SendAsync(Deliveries.To(client.Handle, "line"));
        await client.Ended.WhileAdvancing(() => clock.Advance(TimeSpan.FromSeconds(1)));

        await using var next = transport.Attach(Stream.Null);
    }

    [Fact]
    public async Task An_attached_connection_takes_a_place_and_is_not_idle()
    {
        var clock = new ManualTimeProvider();
        var options = new BroadcastOptions { MaxConnections = 1, IdleTimeout = TimeSpan.FromMinutes(1), AuthenticationTimeout = TimeSpan.FromMinutes(1) };
        await using var transport = new BroadcastTransport(options, timeProvider: clock);
        var client = transport.Attach(Stream.Null);

        var refusal = Assert.Throws<InvalidOperationException>(() => transport.Attach(Stream.Null));
        clock.Advance(TimeSpan.FromMinutes(10));
        var wasEnding = client.Ending.IsCancellationRequested;
        await client.DisposeAsync();
        await using var next = transport.Attach(Stream.Null);

        Assert.Contains("limit", refusal.Message, StringComparison.Ordinal);
        Assert.False(wasEnding);
    }

    [Fact]
    public async Task What_an_owner_throws_at_the_end_ends_nothing_else()
    {
        var client = _transport.Attach(Stream.Null);
        client.Ending.Register(() => throw new InvalidOperationException("An owner that throws."));

        client.Connection.Abort();

        Assert.Equal(DisconnectReason.Aborted, await client.Ended.WithinDeadline());
        Assert.Equal(0, _transport.Connections.Places);
    }

    private static async Task<(NetworkStream Client, NetworkStream Server)> ConnectAsync()
    {
        var (client, server) = await SocketPair.ConnectAsync();
        return (new NetworkStream(client, ownsSocket: true), new NetworkStream(server, ownsSocket: true));
    }

    private static async Task<string> ReadAsync(Stream stream, int bytes)
    {
        var buffer = new byte[bytes];
        await stream.ReadExactlyAsync(buffer).AsTask().WithinDeadline();
        return Encoding.UTF8.GetString(buffer);
    }

    private sealed record Duplex(PipeReader Input, PipeWriter Output) : IDuplexPipe;
}
