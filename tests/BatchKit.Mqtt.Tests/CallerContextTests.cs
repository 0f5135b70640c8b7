using BatchKit.Mqtt.Tests.Connections;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests;

/// <summary>What a caller has or changes after the start stays with the caller: its execution context and its settings.</summary>
public sealed class CallerContextTests : IDisposable
{
    private static readonly AsyncLocal<string?> Caller = new();

    private readonly FakeBroker _broker = new();

    public void Dispose() => _broker.Dispose();

    [Fact]
    public async Task A_transports_loop_and_timers_have_none_of_it()
    {
        var seen = new TaskCompletionSource<string?>(TaskCreationOptions.RunContinuationsAsynchronously);
        var time = new ContextRecordingTime();
        var options = ConnectionSome.Options(_broker);
        options.CredentialsProvider = _ =>
        {
            seen.TrySetResult(Caller.Value);
            return ValueTask.FromResult(new MqttCredentials("user", default));
        };
        await using var transport = new MqttTransport(options, time);
        Caller.Value = "the caller";

        var publishing = transport.PublishManyAsync(new[] { new MqttMessage("a", default) }).AsTask();
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x40, 2, 0, 1);
        await publishing.WithinDeadline();

        Assert.Null(await seen.Task.WithinDeadline());
        Assert.All(time.Contexts, Assert.Null);
        Assert.NotEmpty(time.Contexts);
        Assert.Equal("the caller", Caller.Value);
    }

    [Fact]
    public async Task A_receivers_next_hop_has_none_of_it()
    {
        var seen = new TaskCompletionSource<string?>(TaskCreationOptions.RunContinuationsAsynchronously);
        var next = new ScriptedTransport(new CollectingTransport()).Then((_, _) =>
        {
            seen.TrySetResult(Caller.Value);
            return ValueTask.CompletedTask;
        });
        var options = ConnectionSome.Options(_broker);
        options.Subscriptions.Add(new MqttSubscription { Filter = "#" });
        await using var receiver = new MqttReceiver(options, node: 1, new BatchReceiver(next));
        Caller.Value = "the caller";

        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();
        await broker.WriteAsync([0x90, 4, 0, 1, 0, 1, .. ConnectionSome.Publish(1)]);
        await starting.WithinDeadline();

        Assert.Null(await seen.Task.WithinDeadline());
    }

    [Fact]
    public async Task Settings_that_change_after_the_start_have_no_effect()
    {
        var options = ConnectionSome.Options(_broker);
        options.UserName = "first";
        options.TopicRules.Add(new MqttTopicRule { Filter = "a" });
        await using var transport = new MqttTransport(options);
        options.UserName = "second";
        options.ClientId = "other";
        options.PublishTimeout = TimeSpan.FromMilliseconds(10);
        options.MaxPacketBytes = 1024;
        options.TopicRules[0].QualityOfService = MqttQualityOfService.AtMostOnce;
        options.TopicRules[0].Retain = true;
        options.TopicRules.Clear();

        var publishing = transport.PublishManyAsync(new[] { new MqttMessage("a", new byte[2000]) }).AsTask();
        using var broker = await _broker.AcceptAsync();
        var connect = await broker.ReadAsync();
        await broker.WriteAsync(ConnectionSome.Connack);
        var publish = await broker.ReadAsync();
        await broker.WriteAsync(0x40, 2, 0, 1);

        Assert.True((await publishing.WithinDeadline()).IsSuccess);
        Assert.EndsWith("first", System.Text.Encoding.ASCII.GetString(connect), StringComparison.Ordinal);
        Assert.Equal(0x32, publish[0]);
    }

    /// <summary>The system's time, and what the context of each timer's callback carries.</summary>
    private sealed class ContextRecordingTime : TimeProvider
    {
        private readonly Lock _lock = new();
        private readonly List<string?> _contexts = [];

        public IReadOnlyList<string?> Contexts
        {
            get
            {
                lock (_lock)
                    return [.. _contexts];
            }
        }

        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
        {
            string? carried = null;
            if (ExecutionContext.Capture() is { } context)
                ExecutionContext.Run(context, _ => carried = Caller.Value, state: null);
            lock (_lock)
                _contexts.Add(carried);
            return base.CreateTimer(callback, state, dueTime, period);
        }
    }
}
