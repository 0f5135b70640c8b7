using MailTasks;
using Npgsql;

var builder = Host.CreateApplicationBuilder(args);
var connection = builder.Configuration.GetConnectionString("Tasks") ?? throw new InvalidOperationException("ConnectionStrings:Tasks is not set.");
builder.Services.AddSingleton(_ => NpgsqlDataSource.Create(connection));
builder.Services.AddBatchKit(builder.Configuration.GetSection("BatchKit"))
    .UseJson(TaskJson.Default)
    .UsePostgres(builder.Configuration.GetSection("Postgres"))
    .ReceiveFromPostgres<MailHandler>(SendMail.QueueName, builder.Configuration.GetSection("Mails"));
builder.Services.AddHostedService<MailProducer>();

using var host = builder.Build();
await host.RunAsync();
