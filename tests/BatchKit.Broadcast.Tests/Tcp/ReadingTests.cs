using System.Net.Sockets;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class ReadingTests
{
    [Fact]
    public async Task A_client_that_ends_its_sending_side_reads_the_rest()
    {
        await using var server = await TcpServer.StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync("one\ntwo\nnot a whole line");
        client.Finish();

        Assert.Equal("one\ntwo\n", await client.ReadToEndAsync());
        await handler.Finished.WithinDeadline();
        Assert.Equal(DisconnectReason.ClientClosed, await handler.Ended.WithinDeadline());
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task A_client_that_only_reads_is_answered_until_its_handler_closes_it()
    {
        await using var server = await TcpServer.StartAsync();
        server.StaysOpen = true;
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        client.Finish();
        await handler.Finished.WithinDeadline();
        handler.Write("late\n");
        await server.Output.FlushAsync(handler.Connection.Handle).WithinDeadline();
        handler.Connection.Close();

        Assert.Equal("late\n", await client.ReadToEndAsync());
        Assert.Equal(DisconnectReason.Closed, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task A_client_that_only_reads_is_closed_after_the_close_timeout()
    {
        var clock = new ManualTimeProvider();
        await using var server = await TcpServer.StartAsync(clock: clock);
        server.StaysOpen = true;
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        client.Finish();
        await handler.Finished.WithinDeadline();
        await clock.WaitForTimersAsync(2);
        clock.Advance(new BroadcastOptions().CloseTimeout);

        Assert.Equal("", await client.ReadToEndAsync());
        Assert.Equal(DisconnectReason.ClientClosed, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task A_client_that_stays_half_closed_is_cut_off_after_the_close_timeout()
    {
        var clock = new ManualTimeProvider();
        await using var server = await TcpServer.StartAsync(clock: clock);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        handler.Connection.Close();
        Assert.Equal("", await client.ReadToEndAsync());
        await clock.WaitForTimersAsync(2);
        Assert.False(handler.Ended.IsCompleted);
        clock.Advance(new BroadcastOptions().CloseTimeout);

        Assert.Equal(DisconnectReason.Closed, await handler.Ended.WithinDeadline());
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task A_reset_is_a_lost_connection()
    {
        await using var server = await TcpServer.StartAsync();
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        client.Reset();

        Assert.Equal(DisconnectReason.ConnectionLost, await handler.Ended.WithinDeadline());
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task A_record_above_the_limit_ends_the_client_behind_the_answers_to_those_before()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxRecordBytes = 16 });
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync("ok\n" + new string('x', 1024 * 1024));

        Assert.Equal("ok\n", await client.ReadToEndAsync());
        Assert.Contains("16 bytes", await server.LoggedAsync(2305));
        client.Dispose();
        Assert.Equal(DisconnectReason.ProtocolError, await handler.Ended.WithinDeadline());
    }

    [Fact]
    public async Task A_handler_that_throws_loses_its_client_only()
    {
        await using var server = await TcpServer.StartAsync();
        server.OnRecord = (handler, record, _) =>
        {
            handler.Write(record + "\n");
            return record == "throw" ? throw new InvalidOperationException("as told") : default;
        };
        using var one = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();
        using var other = await LineClient.ConnectAsync(server.EndPoint);

        await one.SendAsync("throw\n");

        Assert.Equal("throw\n", await one.ReadToEndAsync());
        one.Finish();
        Assert.Equal(DisconnectReason.HandlerFailed, await handler.Ended.WithinDeadline());
        await server.LoggedAsync(2304);
        await other.SendAsync("fine\n");
        Assert.Equal("fine", await other.ReadLineAsync());
    }

    [Fact]
    public async Task Output_before_a_handlers_failure_arrives_whole_although_input_is_unread()
    {
        await using var server = await TcpServer.StartAsync();
        server.OnRecord = async (handler, _, cancellationToken) =>
        {
            handler.Write(new string('x', 400_000) + "\n");
            await server.Output.FlushAsync(handler.Connection.Handle, cancellationToken);
            throw new InvalidOperationException("as told");
        };
        using var client = await LineClient.ConnectAsync(server.EndPoint, isSmall: true);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync("throw\n" + new string('y', 100_000));
        await handler.Connection.Closing.WithinDeadline();

        Assert.Equal(400_001, (await client.ReadToEndAsync()).Length);
        client.Dispose();
        Assert.Equal(DisconnectReason.HandlerFailed, await handler.Ended.WithinDeadline());
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task While_a_handler_is_busy_nothing_more_is_read_from_its_client()
    {
        await using var server = await TcpServer.StartAsync();
        var release = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        server.OnRecord = async (_, _, cancellationToken) => await release.Task.WaitAsync(cancellationToken);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();

        await client.SendAsync("a line.\n");
        await Until.TrueAsync(() => handler.Connection.Activity.ReceivedBytes == 8);
        var sent = 8 + SendUntilFull(client.Socket);
        Assert.Equal(8, handler.Connection.Activity.ReceivedBytes);
        release.SetResult();
        client.Finish();
        await handler.Finished.WithinDeadline();

        Assert.Equal(sent, handler.Connection.Activity.ReceivedBytes);
        Assert.Equal(sent / 8, handler.Records.Count);
    }

    [Fact]
    public async Task Who_is_aborted_is_gone_at_once_and_its_handler_is_told()
    {
        await using var server = await TcpServer.StartAsync(clock: new ManualTimeProvider());
        server.OnRecord = async (_, _, cancellationToken) => await Task.Delay(Timeout.Infinite, cancellationToken);
        using var client = await LineClient.ConnectAsync(server.EndPoint);
        var handler = await server.NextHandlerAsync();
        await client.SendAsync("wait\n");
        await Until.TrueAsync(() => handler.Connection.Activity.ReceivedBytes == 5);

        handler.Connection.Abort();
        Assert.Equal("", await client.ReadToEndAsync());

        // The clock stands still: nothing is waited for.
        Assert.Equal(DisconnectReason.Aborted, await handler.Ended.WithinDeadline());
    }

    private static long SendUntilFull(Socket socket)
    {
        const int mostBytes = 64 * 1024 * 1024;
        var lines = Some.Bytes(string.Concat(Enumerable.Repeat("a line.\n", 8192)));
        var sent = 0L;
        socket.Blocking = false;
        while (sent < mostBytes && socket.Poll(TimeSpan.FromMilliseconds(200), SelectMode.SelectWrite))
            sent += Math.Max(0, socket.Send(lines.AsSpan((int)(sent % lines.Length)), SocketFlags.None, out _));
        Assert.True(sent < mostBytes, "The server did not stop reading.");
        socket.Blocking = true;
        var rest = (8 - (int)(sent % 8)) % 8;
        return sent + (rest == 0 ? 0 : socket.Send(lines, (int)(sent % lines.Length), rest, SocketFlags.None));
    }
}
