using BatchKit;
using Grpc.Net.Client;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Streams;

var builder = WebApplication.CreateBuilder(args);
builder.WebHost.UseUrls("http://127.0.0.1:0").ConfigureKestrel(kestrel => kestrel.ConfigureEndpointDefaults(endpoint => endpoint.Protocols = HttpProtocols.Http2));
builder.Services.AddGrpc();
builder.Services.AddSingleton<StreamTransport>();
builder.Services.AddBatchKit().UseLocal(services => services.GetRequiredService<StreamTransport>());
var server = builder.Build();
server.MapGrpcService<GameService>();
await server.StartAsync();

using var channel = GrpcChannel.ForAddress(server.Urls.First());
using var call = new Game.GameClient(channel).Listen(new Player { Id = 7 });
await call.ResponseStream.MoveNext(default);
Console.WriteLine($"{call.ResponseStream.Current.Lines.Count} lines in one message");
await server.WaitForShutdownAsync();
