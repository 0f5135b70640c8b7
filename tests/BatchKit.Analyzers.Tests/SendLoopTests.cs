using BatchKit.Analyzers.CodeFixes;

namespace BatchKit.Analyzers.Tests;

public sealed class SendLoopTests
{
    [Theory]
    [InlineData("await bus.{|BK0001:Publish|}(item);")]
    [InlineData("await endpoint.{|BK0001:Publish|}<object>(item, stopping);")]
    [InlineData("await channel.{|BK0001:BasicPublishAsync|}(\"\", item, new byte[1]);")]
    [InlineData("await mqtt.{|BK0001:PublishAsync|}(new MqttApplicationMessage { Topic = item });")]
    [InlineData("await mqtt.{|BK0001:PublishStringAsync|}(item, \"\");")]
    [InlineData("await mqttServer.{|BK0001:InjectApplicationMessage|}(new InjectedMqttApplicationMessage(new MqttApplicationMessage { Topic = item }));")]
    [InlineData("await hub.Clients.All.{|BK0001:SendAsync|}(\"said\", item);")]
    [InlineData("await hub.Clients.Client(item).{|BK0001:SendAsync|}(\"said\", item);")]
    [InlineData("await typedHub.Clients.All.{|BK0001:Said|}(item);")]
    [InlineData("await typedHub.Clients.Client(item).{|BK0001:Said|}(item);")]
    [InlineData("await typedHub.Clients.GroupExcept(\"hall\", items).{|BK0001:Said|}(item);")]
    [InlineData("var all = typedHub.Clients.All; await all.{|BK0001:Said|}(item);")]
    [InlineData("await jetStream.{|BK0001:PublishAsync|}(\"said\", item);")]
    public Task A_send_of_each_client_in_a_loop_is_reported(string send) => AnalyzerCheck.ReportsAsync<SendLoopAnalyzer>($"foreach (var item in items) {{ {send} }}");

    [Theory]
    [InlineData("for (var i = 0; i < items.Count; i++) await bus.{|BK0001:Publish|}(items[i]);")]
    [InlineData("while (queue.TryDequeue(out var item)) await bus.{|BK0001:Publish|}(item);")]
    [InlineData("var left = 3; do await bus.{|BK0001:Publish|}(items[0]); while (--left > 0);")]
    [InlineData("await Task.WhenAll(items.Select(item => bus.{|BK0001:Publish|}(item)));")]
    [InlineData("var tasks = items.Select(async item => { await bus.{|BK0001:Publish|}(item); }).ToList(); await Task.WhenAll(tasks);")]
    [InlineData("var tasks = new List<Task>(); foreach (var item in items) tasks.Add(bus.{|BK0001:Publish|}(item)); await Task.WhenAll(tasks);")]
    [InlineData("await Task.WhenAll(from item in items select bus.{|BK0001:Publish|}(item));")]
    [InlineData("await foreach (var item in items.ToAsyncEnumerable().Where(item => item.Length > 0)) await bus.{|BK0001:Publish|}(item);")]
    [InlineData("items.ForEach(item => bus.{|BK0001:Publish|}(item));")]
    [InlineData("await Parallel.ForEachAsync(items, async (item, stop) => await bus.{|BK0001:Publish|}(item, stop));")]
    [InlineData("while (!stopping.IsCancellationRequested) foreach (var item in items) await bus.{|BK0001:Publish|}(item);")]
    [InlineData("foreach (var item in items) for (var i = 0; i < 3; i++) { try { await bus.{|BK0001:Publish|}(item); break; } catch (TimeoutException) { } }")]
    [InlineData("foreach (var item in items) { var sent = false; for (var i = 0; i < 3 && !sent; i++) { try { await bus.{|BK0001:Publish|}(item); sent = true; } catch (TimeoutException) { } } }")]
    [InlineData("var failed = false; for (var i = 0; i < items.Count && !failed; i++) { try { await bus.{|BK0001:Publish|}(items[i]); } catch (TimeoutException) { failed = true; } }")]
    [InlineData("var failed = false; foreach (var item in items) { try { await bus.{|BK0001:Publish|}(item); } catch (TimeoutException) { failed = true; } if (failed) break; }")]
    [InlineData("foreach (var item in System.IO.File.ReadAllLines(items[0])) await bus.{|BK0001:Publish|}(item);")]
    [InlineData("List<string> GetSubscribers() => items; foreach (var item in GetSubscribers()) await bus.{|BK0001:Publish|}(item);")]
    [InlineData("IAsyncEnumerable<string> QueryListenersAsync() => null; await foreach (var item in QueryListenersAsync()) await bus.{|BK0001:Publish|}(item);")]
    [InlineData("await Task.WhenAll(items.SelectMany(item => new[] { bus.{|BK0001:Publish|}(item) }));")]
    [InlineData("await Task.WhenAll(items.Select(SendAsync)); async Task SendAsync(string item) => await bus.{|BK0001:Publish|}(item);")]
    [InlineData("await Task.WhenAll(items.Select(item => Task.Run(() => bus.{|BK0001:Publish|}(item))));")]
    [InlineData("foreach (var item in items) { var task = Task.Run(async () => { await bus.{|BK0001:Publish|}(item); }); }")]
    public Task A_send_in_a_loop_of_any_kind_is_reported(string loop) => AnalyzerCheck.ReportsAsync<SendLoopAnalyzer>(loop);

    [Theory]
    [InlineData("await bus.Publish(items);")]
    [InlineData("while (true) await bus.Publish(items);")]
    [InlineData("for (;;) await bus.Publish(items);")]
    [InlineData("while (!stopping.IsCancellationRequested) await bus.Publish(items);")]
    [InlineData("var ends = DateTime.MaxValue; while (DateTime.UtcNow < ends) await bus.Publish(items);")]
    [InlineData("using var timer = new PeriodicTimer(TimeSpan.MaxValue); while (await timer.WaitForNextTickAsync()) await bus.Publish(items);")]
    [InlineData("foreach (var item in items) { await bus.Publish(item); await Task.Delay(1000); }")]
    [InlineData("var reader = System.Threading.Channels.Channel.CreateUnbounded<string>().Reader; await foreach (var item in reader.ReadAllAsync()) await bus.Publish(item);")]
    [InlineData("IAsyncEnumerable<string> source = null; await foreach (var item in source) await bus.Publish(item);")]
    [InlineData("IAsyncEnumerable<string> source = null; await foreach (var item in source.WithCancellation(stopping)) await bus.Publish(item);")]
    [InlineData("IAsyncEnumerable<string> SubscribeAsync() => null; await foreach (var item in SubscribeAsync()) await bus.Publish(item);")]
    [InlineData("foreach (var item in items) { var task = Task.Run(async () => { while (true) await bus.Publish(item); }); }")]
    [InlineData("async Task SendAsync(string item) => await bus.Publish(item); await SendAsync(items[0]);")]
    [InlineData("foreach (var item in new BlockingCollection<string>().GetConsumingEnumerable()) await bus.Publish(item);")]
    [InlineData("for (var i = 0; i < 3; i++) { try { await bus.Publish(items); return; } catch (TimeoutException) { } }")]
    [InlineData("for (var i = 0; i < 3; i++) { try { await bus.Publish(items); } catch (TimeoutException) { continue; } break; }")]
    [InlineData("var sent = false; for (var i = 0; i < 3 && !sent; i++) { try { await bus.Publish(items); sent = true; } catch (TimeoutException) { } }")]
    [InlineData("var sent = false; for (var i = 0; i < 3; i++) { try { await bus.Publish(items); sent = true; } catch (TimeoutException) { } if (sent) break; }")]
    [InlineData("var (sent, tries) = (false, 0); do { try { await bus.Publish(items); sent = true; } catch (TimeoutException) { } } while (!sent && ++tries < 3);")]
    [InlineData("foreach (var item in items) if (item.Length > 3) { await bus.Publish(item); break; }")]
    [InlineData("foreach (var item in items) { Action act = () => bus.Publish(item); act(); }")]
    [InlineData("foreach (var item in items) { queue.Enqueue(item); }")]
    [InlineData("foreach (var item in items) { await typedHub.Clients.Client(item).Ask(item); await listener.Said(item); }")]
    public Task A_loop_that_sends_once_or_waits_is_not_reported(string loop) => AnalyzerCheck.ReportsAsync<SendLoopAnalyzer>(loop);

    [Theory]
    [InlineData("foreach (var client in clients) await client.PublishStringAsync(\"said\", \"\");")]
    [InlineData("foreach (var client in clients) await (client?.PublishStringAsync(\"said\", \"\") ?? Task.FromResult<MqttClientPublishResult>(null));")]
    [InlineData("foreach (var name in items) await busses[name].Publish(items);")]
    [InlineData("foreach (var pair in busses) await pair.Value.Publish(items);")]
    [InlineData("foreach (var item in items) { await using var own = await connection.CreateChannelAsync(); await own.BasicPublishAsync(\"\", item, new byte[1]); }")]
    [InlineData("await Task.WhenAll(clients.Select(client => client.PublishStringAsync(\"said\", \"\")));")]
    [InlineData("await Task.WhenAll(from client in clients select client.PublishStringAsync(\"said\", \"\"));")]
    [InlineData("await Task.WhenAll(clients.Select(client => Task.Run(() => client.PublishStringAsync(\"said\", \"\"))));")]
    [InlineData("await Parallel.ForEachAsync(clients, async (client, stop) => await client.PublishStringAsync(\"said\", \"\"));")]
    [InlineData("await Task.WhenAll(clients.Select(SendAsync)); Task SendAsync(IMqttClient client) => client.PublishStringAsync(\"said\", \"\");")]
    [InlineData("foreach (var client in clients) foreach (var item in items) await client.{|BK0001:PublishStringAsync|}(item, \"\");")]
    [InlineData("Action<IMqttClient> tell = async client => { foreach (var item in items) await client.{|BK0001:PublishStringAsync|}(item, \"\"); };")]
    public Task A_loop_over_several_clients_is_not_reported(string loop) => AnalyzerCheck.ReportsInMembersAsync<SendLoopAnalyzer>(
        $"private async Task Run(List<IMqttClient> clients, Dictionary<string, IBus> busses, IConnection connection) {{ {loop} }}");

    [Theory]
    [InlineData("await hub.Clients.Group(\"hall\").SendAsync(\"said\", item);")]
    [InlineData("await typedHub.Clients.Group(\"hall\").Said(item);")]
    [InlineData("await bus.{|BK0001:Publish|}(item);")]
    public Task A_send_in_a_scope_is_reported_unless_scopes_hold_it(string send) =>
        AnalyzerCheck.ReportsAsync<SendLoopAnalyzer>($"await using (output.BeginBufferingScope()) foreach (var item in items) {{ {send} }}");

    [Theory]
    [InlineData("All")]
    [InlineData("Caller")]
    [InlineData("OthersInGroup(\"hall\")")]
    public Task A_send_to_the_typed_clients_of_a_hub_is_reported_in_the_hub_too(string clients) => AnalyzerCheck.ReportsInMembersAsync<SendLoopAnalyzer>(
        $$"""
        private class Talk : Hub<IListener>
        {
            public async Task Say(List<string> lines)
            {
                foreach (var line in lines)
                    await Clients.{{clients}}.{|BK0001:Said|}(line);
            }
        }
        """);

    [Fact]
    public Task The_fix_opens_a_scope_where_the_loop_also_writes_to_a_buffer() => AnalyzerCheck.FixesAsync<SendLoopAnalyzer, ScopeAroundLoop>(
        """
        foreach (var item in items)
        {
            output.Write(player, item);
            await bus.{|BK0001:Publish|}(item);
        }
        """,
        """
        await using (output.BeginBufferingScope(player))
        {
            foreach (var item in items)
            {
                output.Write(player, item);
                await bus.{|BK0001:Publish|}(item);
            }
        }
        """);

    [Fact]
    public Task There_is_no_fix_where_the_loop_waits_for_an_answer() => AnalyzerCheck.FixesNothingAsync<SendLoopAnalyzer, ScopeAroundLoop>(
        "foreach (var item in items) { output.Write(player, item); await bus.{|BK0001:Publish|}(Console.ReadLine()); }");

    [Fact]
    public Task There_is_no_fix_where_tasks_write() => AnalyzerCheck.FixesNothingAsync<SendLoopAnalyzer, ScopeAroundLoop>(
        "foreach (var item in items) { var task = Task.Run(async () => { output.Write(player, item); await bus.{|BK0001:Publish|}(item); }); }");

    [Fact]
    public Task The_fix_opens_an_ambient_scope_where_the_handle_changes() => AnalyzerCheck.FixesAsync<SendLoopAnalyzer, ScopeAroundLoop>(
        """
        foreach (var item in items)
        {
            output.Write(OutputHandle.Named(item), item);
            bus.{|BK0001:Publish|}(item);
        }
        """,
        """
        using (output.BeginBufferingScope())
        {
            foreach (var item in items)
            {
                output.Write(OutputHandle.Named(item), item);
                bus.{|BK0001:Publish|}(item);
            }
        }
        """,
        isAsync: false);
}
