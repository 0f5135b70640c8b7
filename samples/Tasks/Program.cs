using System.Text;
using BatchKit;
using Npgsql;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddSingleton(NpgsqlDataSource.Create(builder.Configuration.GetConnectionString("Tasks") ?? "Host=localhost;Username=postgres"));
builder.Services.AddBatchKit().UsePostgres().ReceiveFromPostgres<Mails>("mails");
using var host = builder.Build();
await host.StartAsync();
var mails = OutputHandle.Named("mails");
var output = host.Services.GetRequiredService<IOutputBuffer>();
using (output.BeginBufferingScope(mails))
    for (var number = 1; number <= 1000; number++)
        output.Write(mails, $"Mail {number}");
await host.WaitForShutdownAsync();

internal sealed class Mails : IMessageHandler
{
    public async ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var mail in batch)
            await Console.Out.WriteLineAsync($"{Encoding.UTF8.GetString(mail.Payload.Span)} is sent.");
    }
}
