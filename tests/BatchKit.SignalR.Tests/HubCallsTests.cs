using System.IO.Pipelines;
using System.Reflection;
using System.Reflection.Emit;
using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Hubs;
using BatchKit.SignalR.Records;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.SignalR.Tests;

/// <summary>Moments of a call between servers that a whole server seldom meets.</summary>
public sealed class HubCallsTests : IAsyncDisposable
{
    private static readonly ClientLimits Limits = new(new SignalROptions(), TimeProvider.System, NullLogger.Instance);

    private readonly JsonHubProtocol _protocol = new();
    private readonly CollectingTransport _transport = new();
    private readonly OutputBuffer _buffer;
    private readonly HubOutput _output;
    private readonly HubCalls _calls;

    public HubCallsTests()
    {
        _buffer = new OutputBuffer(_transport);
        _output = new HubOutput(_buffer, "signalr/hub/", [_protocol], Limits);
        _calls = new HubCalls(_output, hasBackplane: true, TimeSpan.FromMinutes(1), TimeProvider.System);
    }

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Fact]
    public async Task A_call_that_finds_a_client_and_begins_after_its_end_is_answered()
    {
        var (members, client) = (new HubMembers(), CreateClient());
        members.Add(client);
        members.Remove(client.Connection.ConnectionId);
        await _calls.EndAsync(client);

        _calls.Begin(client, "other", "1");

        await Until.TrueAsync(() => _transport.MessageCount == 1);
        Assert.Contains("disconnected", _transport.Texts[0], StringComparison.Ordinal);
        Assert.False(_calls.TryGetReturnType("1", out _));
    }

    [Fact]
    public async Task Calls_that_a_client_leaves_unanswered_are_given_up_when_a_thousand_later_ones_wait()
    {
        var (members, client) = (new HubMembers(), CreateClient());
        members.Add(client);

        for (var call = 1; call <= 1010; call++)
            _calls.Begin(client, "other", $"{call}");

        await Until.TrueAsync(() => _transport.MessageCount == 1020);
        Assert.Equal(10, _transport.Texts.Count(static text => text.Contains("unanswered", StringComparison.Ordinal)));
        Assert.Equal([false, true], new[] { "10", "11" }.Select(id => _calls.TryGetReturnType(id, out _)));
    }

    [Fact]
    public async Task A_slow_call_is_not_given_up_for_later_ones_that_the_client_has_answered()
    {
        var (members, client) = (new HubMembers(), CreateClient());
        members.Add(client);

        _calls.Begin(client, "other", "slow");
        for (var call = 1; call <= 1000; call++)
        {
            _calls.Begin(client, "other", $"{call}");
            await _calls.SetResultAsync("client", CompletionMessage.Empty($"{call}")).WithinDeadline();
        }

        _calls.Begin(client, "other", "last");

        Assert.Equal(["slow", "last"], client.Asked);
        Assert.True(_calls.TryGetReturnType("slow", out _));
        await _calls.EndAsync(client).WithinDeadline();
        Assert.Equal(0, _transport.Texts.Count(static text => text.Contains("unanswered", StringComparison.Ordinal)));
        Assert.Empty(client.Asked);
    }

    [Fact]
    public async Task A_result_from_a_connection_that_was_not_asked_is_malformed()
    {
        using var ending = new CancellationTokenSource();
        var invoking = _calls.InvokeAsync<string>(CreateClient(), "client", OutputHandle.Connection(0, 1), "Ask", [], ending.Token);

        _output.Post(_output.HandleOf(HubTarget.Server, _output.Server), RecordKind.Result, record => record.Text("stranger").Text(_protocol.Name).Message(CompletionMessage.WithResult($"{_output.Server}-1", "forged"), _protocol));
        await Until.TrueAsync(() => _transport.Texts.Any(static text => text.Contains("forged", StringComparison.Ordinal)));

        Assert.False(_calls.TryReceive(Received(_transport.Batches[^1]), _output.Server));
        Assert.False(invoking.IsCompleted);
        await ending.CancelAsync();
        await Assert.ThrowsAsync<HubException>(() => invoking.WithinDeadline());
    }

    [Fact]
    public async Task Answers_of_a_full_buffer_that_does_not_wait_come_when_it_has_capacity()
    {
        var clock = new ManualTimeProvider();
        var transport = new ScriptedTransport(_transport, sendsWithoutBlocking: true).Pass(3);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { Overflow = OverflowPolicy.Fail, MaxBufferedBytes = 4096, MaxMessageBytes = 1024 });
        var output = new HubOutput(buffer, "signalr/hub/", [_protocol], new ClientLimits(new SignalROptions(), clock, NullLogger.Instance));
        var calls = new HubCalls(output, hasBackplane: true, TimeSpan.FromMinutes(1), clock);
        var (members, client) = (new HubMembers(), CreateClient());
        members.Add(client);
        for (var call = 1; call <= 3; call++)
        {
            calls.Begin(client, "other", $"{call}");
            await _transport.WaitForMessagesAsync(call);
        }

        while (buffer.TryWrite(Some.Group(), new byte[100]))
            continue;

        var answering = calls.SetResultAsync("client", CompletionMessage.WithResult("1", "answered"));
        var ending = calls.EndAsync(client);
        stalled.Release();
        await Until.TrueAsync(() =>
        {
            clock.Advance(TimeSpan.FromSeconds(1));
            return answering.IsCompleted && ending.IsCompleted;
        });

        await Task.WhenAll(answering, ending);
        await Until.TrueAsync(() => Count("answered") == 1 && Count("disconnected") == 2);
        Assert.Equal([false, false, false], new[] { "1", "2", "3" }.Select(id => calls.TryGetReturnType(id, out _)));

        int Count(string word) => _transport.Texts.Count(text => text.Contains(word, StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_change_of_a_group_that_is_carried_out_does_not_fail_for_an_older_loss()
    {
        var transport = new ScriptedTransport(_transport, sendsWithoutBlocking: true).Answer(BatchOutcome.Refused);
        await using var buffer = new OutputBuffer(transport);
        var output = new HubOutput(buffer, "signalr/hub/", [_protocol], Limits);
        var calls = new HubCalls(output, hasBackplane: true, TimeSpan.FromMinutes(1), TimeProvider.System);
        var handle = output.HandleOf(HubTarget.Connection, "client");
        buffer.Write(handle, "lost");

        var changing = calls.ChangeGroupAsync(handle, "client", "room", RecordKind.AddToGroup, CancellationToken.None);
        output.Post(output.HandleOf(HubTarget.Server, output.Server), RecordKind.Acknowledge, record => record.Text($"{output.Server}-1"));
        await Until.TrueAsync(() => _transport.MessageCount == 2);

        Assert.True(calls.TryReceive(Received(_transport.Batches[^1]), output.Server));
        await changing.WithinDeadline();
    }

    [Fact]
    public async Task A_call_that_is_refused_fails_at_once()
    {
        var transport = new ScriptedTransport(_transport, sendsWithoutBlocking: true).Answer(BatchOutcome.Refused);
        await using var buffer = new OutputBuffer(transport);
        var output = new HubOutput(buffer, "signalr/hub/", [_protocol], Limits);
        var calls = new HubCalls(output, hasBackplane: true, TimeSpan.FromMinutes(1), TimeProvider.System);
        using var scope = buffer.BeginBufferingScope();

        await Assert.ThrowsAsync<OutputDeliveryException>(() => calls.ChangeGroupAsync(output.HandleOf(HubTarget.Connection, "client"), "client", "room", RecordKind.AddToGroup, CancellationToken.None).WithinDeadline());
    }

    [Fact]
    public async Task A_hub_that_throws_fails_its_batch_alone()
    {
        using var transport = new SignalRTransport(new SignalROptions());
        transport.AddHub(typeof(Hub), new ThrowingHub());
        var (throws, gone) = (OutputHandle.Named($"{HubAddress.PrefixOf(typeof(Hub))}all/"), OutputHandle.Connection(0, 1));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(
            new[] { Some.Batch(gone, Some.Producer(), 1, "x"), Some.Batch(throws, Some.Producer(), 2, "x"), Some.Batch(gone, Some.Producer(), 3, "x") }, CancellationToken.None).AsTask());

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Contains("faulty", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Two_hubs_with_the_same_full_name_are_refused()
    {
        using var transport = new SignalRTransport();
        transport.AddHub(typeof(Support.TestHub), new ThrowingHub());
        transport.AddHub(typeof(Support.TestHub), new ThrowingHub());
        var another = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Another"), AssemblyBuilderAccess.Run).DefineDynamicModule("Another").DefineType(typeof(Support.TestHub).FullName!, TypeAttributes.Public, typeof(Hub)).CreateType();

        var refused = Assert.Throws<InvalidOperationException>(() => transport.AddHub(another, new ThrowingHub()));

        Assert.Contains("Another, ", refused.Message, StringComparison.Ordinal);
        Assert.Contains("BatchKit.SignalR.Tests, ", refused.Message, StringComparison.Ordinal);
    }

    private sealed class ThrowingHub : IHubReceiver
    {
        public bool TryDeliver(MessageBatch batch, HubTarget target, string key, HubSend send) => throw new NotSupportedException("faulty");

        public bool TryDeliver(MessageBatch batch, HubClient[] clients, HubSend send) => throw new NotSupportedException("faulty");
    }

    private static MessageBatch Received(CollectedBatch sent) =>
        MessageBatch.Create(OutputHandle.Named("server"), Some.Producer(), 1, [.. sent.Messages.Select(static message => new BatchMessage(message.Payload))]);

    private static HubClient CreateClient()
    {
        var connection = new DefaultConnectionContext("client", new DuplexPipe(), new DuplexPipe());
        var hub = new HubConnectionContext(connection, new HubConnectionContextOptions(), NullLoggerFactory.Instance) { Protocol = new JsonHubProtocol() };
        return new HubClient(hub, OutputHandle.Connection(0, 1), Limits);
    }

    private sealed class DuplexPipe : IDuplexPipe
    {
        private readonly Pipe _pipe = new();

        public PipeReader Input => _pipe.Reader;

        public PipeWriter Output => _pipe.Writer;
    }
}
