using BatchKit.Mqtt.Tests.Connections;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Tests;

/// <summary>Loggers, credential providers and cancellation callbacks that throw: the connection goes on, and health reports what happened.</summary>
public sealed class ObserverFaultTests : IDisposable
{
    private readonly FakeBroker _broker = new();

    public static TheoryData<string> Calls => ["first", "second", "always", $"random {Random.Shared.Next()}"];

    public void Dispose() => _broker.Dispose();

    [Theory]
    [MemberData(nameof(Calls), DisableDiscoveryEnumeration = true)]
    public async Task A_transport_whose_logger_throws_publishes_and_reconnects(string calls)
    {
        await using var provider = Provider(calls, static builder => builder.UseMqtt());
        var publisher = provider.GetRequiredService<IMqttPublisher>();

        for (var connection = 0; connection < 6; connection++)
        {
            var publishing = publisher.PublishManyAsync(new[] { new MqttMessage("a", default) }).AsTask();
            using var broker = await _broker.WelcomeAsync();
            var packet = await broker.ReadAsync();
            await broker.WriteAsync(0x40, 2, packet[5], packet[6]);
            Assert.True((await publishing.WithinDeadline()).IsSuccess);
        }

        using var last = await _broker.WelcomeAsync();
        await Until.TrueAsync(() => provider.GetRequiredKeyedService<MqttTransport>("").Fault is null);
        await AssertDegradedAsync(provider);
    }

    [Theory]
    [MemberData(nameof(Calls), DisableDiscoveryEnumeration = true)]
    public async Task A_receiver_whose_logger_throws_starts_receives_and_reconnects(string calls)
    {
        var arrived = new CollectingTransport();
        await using var provider = Provider(calls, builder => builder.ReceiveFromMqtt(_ => arrived, static options => options.Subscriptions.Add(new MqttSubscription { Filter = "#" })));
        var receiver = provider.GetRequiredKeyedService<MqttReceiver>("");
        var starting = receiver.StartAsync(CancellationToken.None);

        for (var connection = 0; connection < 6; connection++)
        {
            using var broker = await _broker.WelcomeAsync();
            await broker.ReadAsync();
            await broker.WriteAsync([0x90, 4, 0, 1, 0, 1, .. ConnectionSome.Publish(connection)]);
            await starting.WithinDeadline();
            await arrived.WaitForMessagesAsync(connection + 1);
        }

        using var last = await _broker.WelcomeAsync();
        await last.ReadAsync();
        await last.WriteAsync(0x90, 4, 0, 1, 0, 1);
        await Until.TrueAsync(() => receiver.Fault is null);
        await AssertDegradedAsync(provider);
    }

    [Fact]
    public async Task A_provider_of_credentials_that_throws_is_asked_again_and_named_meanwhile()
    {
        var log = new LogCollector();
        var asked = 0;
        await using var transport = Transport(log, options => options.CredentialsProvider = _ =>
            ++asked <= 2 ? throw new InvalidOperationException("secret") : ValueTask.FromResult(new MqttCredentials("user", default)));

        var publishing = transport.PublishManyAsync(new[] { new MqttMessage("a", default) }).AsTask();
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x40, 2, 0, 1);
        await publishing.WithinDeadline();

        Assert.Contains("CredentialsProvider failed with InvalidOperationException", log.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_cancellation_callback_that_throws_when_the_time_limit_has_passed_stops_nothing()
    {
        var time = new ManualTimeProvider();
        var asked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var transport = Transport(new LogCollector(), options => options.CredentialsProvider = async token =>
        {
            token.Register(static () => throw new InvalidOperationException("The callback is broken."));
            if (!asked.TrySetResult())
                return new MqttCredentials("user", default);
            await Task.Delay(Timeout.Infinite, token);
            return new MqttCredentials("never", default);
        }, time);
        var publishing = transport.PublishManyAsync(new[] { new MqttMessage("a", default) }).AsTask();
        await asked.Task.WithinDeadline();

        time.Advance(new MqttOptions().ConnectTimeout);
        await Until.TrueAsync(() => transport.Fault?.Contains("did not answer", StringComparison.Ordinal) == true);
        await Until.TrueAsync(() => time.NextDue <= new MqttOptions().ReconnectDelay);
        time.Advance(new MqttOptions().ReconnectDelay);
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x40, 2, 0, 1);

        await publishing.WithinDeadline();
        // The callback runs on another thread.
        await Until.TrueAsync(() => transport.ObserverFaults.Description?.Contains("InvalidOperationException", StringComparison.Ordinal) == true);
    }

    [Fact]
    public async Task A_next_hop_whose_cancellation_callback_throws_does_not_stop_the_stop()
    {
        var hung = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var next = new ScriptedTransport(new CollectingTransport()).Then(async (_, token) =>
        {
            token.Register(static () => throw new InvalidOperationException("The callback is broken."));
            hung.TrySetResult();
            await Task.Delay(Timeout.Infinite, token);
        });
        var options = ConnectionSome.Options(_broker);
        options.Subscriptions.Add(new MqttSubscription { Filter = "#" });
        var receiver = new MqttReceiver(options, node: 1, new BatchReceiver(next));
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();
        await broker.WriteAsync([0x90, 4, 0, 1, 0, 1, .. ConnectionSome.Publish(1)]);
        await starting.WithinDeadline();
        await hung.Task.WithinDeadline();

        await receiver.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();

        Assert.Equal("The receiver has stopped.", receiver.Fault);
    }

    [Fact]
    public async Task A_fault_that_no_one_expects_is_named_and_the_next_attempt_connects()
    {
        var options = ConnectionSome.Options(_broker);
        options.ReconnectDelay = options.MaxReconnectDelay = TimeSpan.FromMilliseconds(10);
        options.Subscriptions.Add(new MqttSubscription { Filter = "#" });
        using var log = new LogCollector();
        await using var receiver = new MqttReceiver(options, node: 1, new BatchReceiver(new CollectingTransport()), new FirstTimerThrows(), new Logger<MqttReceiver>(log));

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x90, 4, 0, 1, 0, 1);

        await Until.TrueAsync(() => receiver.Fault is null);
        Assert.Contains("The clock is broken.", Assert.Single(log.Entries, static entry => entry.Id == LinkScene.ServingFailed).Text, StringComparison.Ordinal);
    }

    private static async Task AssertDegradedAsync(IServiceProvider provider)
    {
        var report = await provider.GetRequiredService<HealthCheckService>().CheckHealthAsync(static check => check.Name == "batchkit-mqtt").WithinDeadline();
        var health = report.Entries["batchkit-mqtt"];
        Assert.Equal(HealthStatus.Degraded, health.Status);
        Assert.Contains("InvalidOperationException", health.Description, StringComparison.Ordinal);
    }

    private ServiceProvider Provider(string calls, Action<BatchKitBuilder> use)
    {
        var services = new ServiceCollection();
        services.AddLogging();
        services.AddSingleton<ILogger<MqttTransport>>(new Logger<MqttTransport>(ThrowingLoggers.At(calls)));
        services.AddSingleton<ILogger<MqttReceiver>>(new Logger<MqttReceiver>(ThrowingLoggers.At(calls)));
        services.Configure<MqttOptions>(options =>
        {
            options.Server = _broker.Address;
            options.ReconnectDelay = options.MaxReconnectDelay = TimeSpan.FromMilliseconds(10);
        });
        use(services.AddBatchKit());
        return services.BuildServiceProvider();
    }

    private MqttTransport Transport(ILogger log, Action<MqttOptions> configure, TimeProvider? timeProvider = null)
    {
        var options = ConnectionSome.Options(_broker);
        options.ReconnectDelay = TimeSpan.FromMilliseconds(10);
        options.MaxReconnectDelay = timeProvider is null ? TimeSpan.FromMilliseconds(10) : new MqttOptions().MaxReconnectDelay;
        if (timeProvider is not null)
            options.ReconnectDelay = new MqttOptions().ReconnectDelay;
        configure(options);
        return new MqttTransport(options, timeProvider, log is LogCollector collector ? new Logger<MqttTransport>(collector) : null);
    }

    private sealed class FirstTimerThrows : TimeProvider
    {
        private int _timers;

        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) =>
            Interlocked.Increment(ref _timers) == 1 ? throw new InvalidOperationException("The clock is broken.") : base.CreateTimer(callback, state, dueTime, period);
    }
}
